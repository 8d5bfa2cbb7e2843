// softmax over dimension 0. A row's exponentials stay in local memory between the two passes.
#define MOST_BLOCKS 256  // rows of up to 16,384 elements: 64 KiB

__local__ float64 exponentials[MOST_BLOCKS];

void main(tensor x, tensor y)
{
    const int5 start = get_index_space_offset();
    const int5 end = get_index_space_size() + start;
    const int width = get_dim_size(x, 0);
    const int blocks = (width + 63) / 64;
    const int64 lane = (int64)V_LANE_ID_32;

    for (int row = start[0]; row < end[0]; row++) {
        int5 at = {0, row};
        float64 largest = -FLT_MAX;
        for (int block = 0; block < blocks; block++) {
            at[0] = block * 64;
            float64 value = v_f32_ld_tnsr_b(at, x);
            bool64 inside = lane < width - at[0];
            largest = v_f32_max_vb(largest, value, 0, largest, inside);
        }
        largest = v_f32_reduce_max(largest);
        float64 sum = 0;
        for (int block = 0; block < blocks; block++) {
            at[0] = block * 64;
            float64 value = v_exp_cephes_f32(v_f32_ld_tnsr_b(at, x) - largest);
            value = lane < width - at[0] ? value : 0.0f;
            exponentials[block] = value;
            sum += value;
        }
        float64 factor = v_reciprocal_f32(v_f32_reduce_add(sum));
        for (int block = 0; block < blocks; block++) {
            at[0] = block * 64;
            v_f32_st_tnsr(at, y, exponentials[block] * factor);
        }
    }
}
