"""Constants of media pipes, by their names on a Gaudi. Those of dtypes are NumPy's names."""


class dtype:
    UINT8 = "uint8"
    INT8 = "int8"
    UINT16 = "uint16"
    INT16 = "int16"
    UINT32 = "uint32"
    INT32 = "int32"
    UINT64 = "uint64"
    INT64 = "int64"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"  # torch's: NumPy has none
    NDT = ""


class imgtype:
    """Layouts of a decoded batch: RGB_I is batch x height x width x 3, RGB_P is batch x 3 x height x width."""

    RGB_I = "rgb-i"
    RGB_P = "rgb-p"


class ftype:
    """Filters of resizing."""

    LINEAR = 1
    LANCZOS = 2
    NEAREST = 3
    BI_LINEAR = 4
    BICUBIC = 5
    SPLINE = 6
    BOX = 7


class randomCropType:
    NO_RANDOM_CROP = 0
    RANDOMIZED_AREA_AND_ASPECT_RATIO_CROP = 1
    RANDOMIZED_ASPECT_RATIO_CROP = 2
    CENTER_CROP = 3


class decoderStage:
    """In which pass the hardware resizes and crops. Decoding here is one pass: every value means the same."""

    ENABLE_ALL_STAGES = 0
    ENABLE_SINGLE_STAGE = 1
    ENABLE_TWO_STAGES = 2


class MetadataOps:
    """What SSDMetadata does with boxes."""

    crop = "crop"
    flip = "flip"
    encode = "encode"


class readerOutType:
    """What a reader of the script's gives to the decoder: paths, or what is in the files. Both are recognised."""

    FILE_LIST = 0
    BUFFER_LIST = 1
    ADDRESS_LIST = 2


class layout:
    """The order of an array's dimensions, the fastest changing first."""

    NA = ""
    NHWC = "CWHN"
    NCHW = "WHCN"
    FHWC = "CWHC"
