"""The operators of media pipes."""

import numpy as np
import PIL.Image
import pytest

from habana_frameworks.mediapipe import fn
from habana_frameworks.mediapipe.media_types import dtype, ftype, imgtype, randomCropType, readerOutType
from habana_frameworks.mediapipe.mediapipe import MediaPipe
from habana_frameworks.mediapipe.operators.cpu_nodes.cpu_nodes import media_function
from habana_frameworks.mediapipe.operators.reader_nodes.read_image_from_dir import get_max_file
from habana_frameworks.mediapipe.operators.reader_nodes.reader_nodes import (
    media_ext_reader_op_impl,
    media_ext_reader_op_tensor_info,
)
from habana_frameworks.mediapipe.plugins.iterator_pytorch import HPUGenericPytorchIterator


@pytest.fixture
def folder(tmp_path):
    """Seven images of three classes: red says which image, green and blue say where."""
    for n in range(7):
        pixels = np.zeros((30, 40, 3), dtype=np.uint8)
        pixels[..., 0], pixels[..., 1], pixels[..., 2] = 30 * n, np.arange(40) * 6, np.arange(30)[:, None] * 8
        place = tmp_path / "images" / f"class{n % 3}"
        place.mkdir(parents=True, exist_ok=True)
        PIL.Image.fromarray(pixels).save(place / f"{n}.bmp")
    return tmp_path / "images"


def batches(nodes, connect, device="cpu", batch=3, epochs=1):
    """Of a pipe whose `connect` makes the graph of `nodes`: the arrays of each batch."""

    class Pipe(MediaPipe):
        def __init__(self):
            super().__init__(device, 2, batch, 2, "test")
            self.nodes = nodes()

        def definegraph(self):
            return connect(*self.nodes)

    pipe = Pipe()
    pipe.build()
    made = []
    for _ in range(epochs):
        pipe.iter_init()
        for found in iter(pipe.run, None):
            outputs = found if isinstance(found, tuple) else (found,)
            made.append([output.as_cpu().as_nparray() for output in outputs])
    return made


def reader(folder, **arguments):
    return fn.ReadImageDatasetFromDir(dir=str(folder), **{"format": "bmp", "shuffle": False, **arguments})


def images(read, decode):
    files, labels = read()
    return decode(files), labels


def decoded(folder, **arguments):
    """The first batch of the decoder, and its labels."""
    return batches(lambda: (reader(folder), fn.ImageDecoder(**arguments)), images)[0]


def seen(found):
    """Which images a batch has."""
    return [int(image[0, 0, 0]) // 30 for image in found]


def test_readers_order_and_what_is_left_over(folder):
    def run(epochs=1, **arguments):
        made = batches(lambda: (reader(folder, **arguments), fn.ImageDecoder()), images, epochs=epochs)
        assert all((labels == np.array(seen(found)) % 3).all() for found, labels in made)
        assert all(labels.dtype == np.uint32 for _, labels in made)
        return [seen(found) for found, _ in made]

    assert run(drop_remainder=True) == [[0, 3, 6], [1, 4, 2]]
    assert run(pad_remainder=True) == [[0, 3, 6], [1, 4, 2], [5, 5, 5]]
    first, second, third = run()
    assert (first, second, third[0]) == ([0, 3, 6], [1, 4, 2], 5)
    assert run(num_slices=2, slice_index=0, drop_remainder=True) == [[0, 3, 6]]
    assert run(num_slices=2, slice_index=1, pad_remainder=True) == [[4, 2, 5], [0, 0, 0]]  # as long as the other
    shuffled = run(shuffle=True, seed=4, drop_remainder=True, epochs=2)
    assert shuffled == run(shuffle=True, seed=4, drop_remainder=True, epochs=2)
    assert shuffled[:2] != shuffled[2:]


def test_a_list_of_files(folder):
    files = sorted(str(path) for path in folder.rglob("*.bmp"))[:3]
    made = batches(
        lambda: (
            fn.ReadImageDatasetFromDir(
                file_list=files,
                class_list=["b", "a"],
                file_classes=["a", "b", "a"],
                shuffle=False,
                label_dtype=dtype.INT64,
            ),
        ),
        lambda read: read()[1],
    )
    assert made[0][0].tolist() == [1, 0, 1]
    assert made[0][0].dtype == np.int64


def test_decoder(folder):
    whole, labels = decoded(folder)
    assert whole.shape == (3, 30, 40, 3)
    assert whole.dtype == np.uint8
    assert labels.tolist() == [0, 0, 0]
    assert (whole[0, 3, :, 1] == np.arange(40) * 6).all()
    planar, _ = decoded(folder, output_format=imgtype.RGB_P)
    assert (planar == whole.transpose(0, 3, 1, 2)).all()
    for filter, pillows in ((ftype.NEAREST, 0), (ftype.BI_LINEAR, 2), (ftype.BICUBIC, 3), (ftype.LANCZOS, 1)):
        smaller, _ = decoded(folder, resize=[20, 10], resampling_mode=filter)
        assert (smaller[0] == np.asarray(PIL.Image.fromarray(whole[0]).resize((20, 10), pillows))).all()
    middle, _ = decoded(folder, random_crop_type=randomCropType.CENTER_CROP)
    assert (middle == whole[:, :, 5:35]).all()
    window, _ = decoded(folder, crop_after_resize=[2, 3, 10, 5])
    assert (window == whole[:, 3:8, 2:12]).all()


def test_random_crops_of_the_decoder(folder):
    crop = {"random_crop_type": randomCropType.RANDOMIZED_AREA_AND_ASPECT_RATIO_CROP, "resize": [40, 30]}
    first, again, other = (decoded(folder, seed=seed, **crop)[0] for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()
    assert (first[0, ..., 1] != first[1, ..., 1]).any()


def test_crops_by_a_function(folder):
    class Crops(media_function):
        def __init__(self, params):
            self.shape = params["shape"][::-1]
            self.dtype = params["dtype"]
            assert (params["seed"], params["priv_params"], params["batch_size"]) == (7, {"left": 0.5}, 3)
            self.left = params["priv_params"]["left"]

        def __call__(self):
            return np.tile(np.array([self.left, 0, 0.25, 1], dtype=self.dtype), (self.shape[0], 1))

    made = batches(
        lambda: (
            reader(folder),
            fn.ImageDecoder(),
            fn.MediaFunc(
                func=Crops,
                shape=[4, 3],
                dtype=dtype.FLOAT32,
                seed=7,
                priv_params={"left": 0.5},
            ),
        ),
        lambda read, decode, crops: decode(read()[0], crops()),
    )
    assert made[0][0].shape == (3, 30, 10, 3)
    assert (made[0][0][0, 0, :, 1] == np.arange(20, 30) * 6).all()


@pytest.mark.parametrize("planar", [False, True])
def test_the_pipe_of_a_resnet(folder, planar):
    """Decoding, flips and normalisation, against NumPy."""

    class Flips(media_function):
        def __init__(self, params):
            self.shape = params["shape"]

        def __call__(self):
            return np.array([1, 0, 1], dtype=np.uint8)

    mean, std = np.array([120.0, 110.0, 100.0], np.float32), np.array([60.0, 50.0, 40.0], np.float32)
    shape = [1, 1, 3] if planar else [3, 1, 1]
    made = batches(
        lambda: (
            reader(folder),
            fn.ImageDecoder(device="hpu", output_format=imgtype.RGB_P if planar else imgtype.RGB_I),
            fn.MediaFunc(func=Flips, shape=[3]),
            fn.RandomFlip(horizontal=1, device="hpu"),
            fn.MediaConst(data=mean, shape=shape, dtype=dtype.FLOAT32),
            fn.MediaConst(data=1 / std, shape=shape, dtype=dtype.FLOAT32),
            fn.CropMirrorNorm(crop_w=16, crop_h=8, crop_pos_x=0.5, crop_pos_y=1, dtype=dtype.FLOAT32),
        ),
        lambda read, decode, flips, flip, mean, std, norm: norm(flip(decode(read()[0]), flips()), mean(), std()),
    )
    whole = decoded(folder)[0]
    whole[[0, 2]] = whole[[0, 2]][:, :, ::-1]
    expected = (whole[:, 22:, 12:28].astype(np.float32) - mean) * (1 / std)
    assert made[0][0].dtype == np.float32
    np.testing.assert_array_equal(made[0][0], expected.transpose(0, 3, 1, 2) if planar else expected)


def test_arithmetic_and_shapes(folder):
    data = np.array([[0, 100, 250], [3, 4, 5]], np.uint8)

    def run(node, *more):
        return batches(
            lambda: (reader(folder), fn.MediaConst(data=data, shape=[3, 2]), node(), *(other() for other in more)),
            lambda read, const, node, *others: (read()[1], node(const(), *(other() for other in others))),
        )[0][1]

    def const():
        return fn.MediaConst(data=[0.5, 1.5, 2], shape=[3], dtype=dtype.FLOAT32)

    assert run(lambda: fn.Add(dtype=dtype.UINT8), const).tolist() == [[0, 102, 252], [4, 6, 7]]
    assert run(lambda: fn.Mult(dtype=dtype.UINT8), const).tolist() == [[0, 150, 255], [2, 6, 10]]
    assert run(lambda: fn.Sub(dtype=dtype.FLOAT32), const).tolist() == [[-0.5, 98.5, 248], [2.5, 2.5, 3]]
    assert run(lambda: fn.Cast(dtype=dtype.INT8)).tolist() == [[0, 100, 127], [3, 4, 5]]
    assert run(lambda: fn.Cast(dtype=dtype.BFLOAT16)).dtype == np.float32
    assert run(lambda: fn.Transpose(permutation=[1, 0])).tolist() == data.T.tolist()
    assert run(lambda: fn.Reshape(size=[2, 3])).tolist() == data.reshape(3, 2).tolist()
    windows = batches(
        lambda: (reader(folder), fn.ImageDecoder(), fn.Crop(crop_w=4, crop_h=5, crop_pos_x=0, crop_pos_y=0)),
        lambda read, decode, crop: crop(decode(read()[0])),
    )
    assert windows[0][0].shape == (3, 5, 4, 3)


def test_a_reader_of_the_scripts(folder):
    class Own(media_ext_reader_op_impl):
        def __init__(self, params):
            self.files = params["priv_params"]["files"]
            self.batch = params["batch_size"]

        def __iter__(self):
            self.left = list(self.files)
            return self

        def __next__(self):
            if not self.left:
                raise StopIteration
            chosen = self.left[: self.batch]
            self.left = self.left[self.batch :]
            return [file.read_bytes() for file in chosen], np.arange(len(chosen))

    files = sorted(folder.rglob("*.bmp"))[:4]
    made = batches(
        lambda: (fn.MediaExtReaderOp(impl=Own, num_outputs=2, priv_params={"files": files}), fn.ImageDecoder()),
        images,
        batch=2,
        epochs=2,
    )
    assert [found.shape for found, _ in made] == [(2, 30, 40, 3)] * 4
    assert made[0][1].tolist() == [0, 1]


def test_a_reader_that_knows_its_pipe(folder):
    """As programs write it: a second argument, a description of its outputs, and the number of its batches."""

    class Own(media_ext_reader_op_impl):
        def __init__(self, params, fw_params):
            self.files = [str(file) for file in params["priv_params"]]
            self.batch = fw_params.batch_size
            self.largest = get_max_file(self.files)

        def gen_output_info(self):
            return [media_ext_reader_op_tensor_info(dtype.NDT, np.array([self.batch], dtype=np.uint32), "")]

        def get_largest_file(self):
            return self.largest

        def get_media_output_type(self):
            return readerOutType.FILE_LIST

        def __len__(self):
            return len(self.files) // self.batch

        def __iter__(self):
            return iter(
                (self.files[n * self.batch : (n + 1) * self.batch], np.full((self.batch, 3), n, dtype=np.uint32))
                for n in range(len(self))
            )

        def __next__(self):
            raise StopIteration

    class Pipe(MediaPipe):
        def __init__(self, files):
            super().__init__("cpu", batch_size=2, prefetch_depth=3, pipe_name="own")
            self.read = fn.MediaExtReaderOp(impl=Own, num_outputs=2, priv_params=files)
            self.decode = fn.ImageDecoder()

        def definegraph(self):
            return images(self.read, self.decode)

    found = HPUGenericPytorchIterator(mediapipe=Pipe(sorted(folder.rglob("*.bmp"))[:5]))
    assert len(found) == 2
    for _ in range(2):
        made = list(found)
        assert [labels.tolist() for _, labels in made] == [[[n] * 3] * 2 for n in range(2)]
    assert str(made[0][1].dtype) == "torch.int32"
    with pytest.raises(ValueError, match="get_max_file: got no file"):
        get_max_file([])


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda f: fn.ImageDecode, AttributeError, "no operator 'ImageDecode' here; there are ReadImage"),
        (lambda f: fn.Crop(width=3), TypeError, "fn.Crop has no argument 'width'; its arguments: crop_w"),
        (lambda f: fn.MediaConst(shape=[1]), TypeError, "fn.MediaConst needs the argument 'data'"),
        (lambda f: fn.Crop()(np.ones(3)), TypeError, "fn.Crop: input 0 is a ndarray, not an output"),
        (lambda f: fn.Add()(), TypeError, r"fn.Add takes 2 inputs \(first, second\); got 0"),
        (
            lambda f: fn.VideoDecoder,
            AttributeError,
            "no operator 'VideoDecoder' here: Pillow, .* decodes no videos; decode",
        ),
        (lambda f: run_one(f, lambda files, labels: [labels, 3]), TypeError, "expected outputs of its operators"),
        (lambda f: run_one(f / "no"), FileNotFoundError, "dir '.*no' is not a folder"),
        (lambda f: run_one(f, format="jpg"), FileNotFoundError, r"have no file \*.jpg"),
        (lambda f: run_one(f, num_slices=2, slice_index=2), ValueError, "is 2 of num_slices 2; expected 0 to"),
        (lambda f: run_one(f, batch=9, drop_remainder=True), ValueError, "7 elements are not one batch of 9"),
        (lambda f: run_one(f, node=fn.Crop(crop_w=50)), ValueError, "the window is 50 x 30 .*the images are 40 x 30"),
        (lambda f: run_one(f, node=fn.Crop(crop_pos_x=3, crop_w=1)), ValueError, "crop_pos_x is 3; expected a share"),
        (lambda f: run_one(f, node=fn.Transpose(permutation=[0, 1])), ValueError, "none of the 4 dimensions"),
    ],
)
def test_bad_input(folder, make, error, text):
    with pytest.raises(error, match=text):
        make(folder)


def run_one(folder, connect=None, batch=3, node=None, **arguments):
    def default(files, labels):
        return labels if node is None else node(fn.ImageDecoder()(files))

    return batches(lambda: (reader(folder, **arguments),), lambda read: (connect or default)(*read()), batch=batch)


def test_a_broken_image_is_named(folder):
    (folder / "class0" / "0.bmp").write_bytes(b"BM no image")
    with pytest.raises(OSError) as found:
        run_one(folder, node=fn.Crop())
    assert "0.bmp" in found.value.__notes__[0]


def test_a_broken_image_of_a_reader_is_counted(folder):
    """A reader of the script's gives what is in the files: there is no name."""
    good = (folder / "class0" / "0.bmp").read_bytes()

    class Own(media_ext_reader_op_impl):
        def __init__(self, params):
            self.batch = [good, b"no image"], np.zeros(2)

        def __iter__(self):
            return self

        def __next__(self):
            return self.batch

    with pytest.raises(OSError) as found:
        batches(lambda: (fn.MediaExtReaderOp(impl=Own, num_outputs=2), fn.ImageDecoder()), images, batch=2)
    assert "image 1 of those it was given" in found.value.__notes__[0]
