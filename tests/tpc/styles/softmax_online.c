/* Softmax of each row in two passes, with a running maximum (online softmax), for rows of any length. */
#define VEC_LEN 64
#define NEG_INF (-3.4e38f)

static inline float64 masked_load(int5 coords, tensor t, int remaining, float fill)
{
    uint64 lane_id = V_LANE_ID_32;
    bool64 inside = v_u32_cmp_less_b(lane_id, (unsigned)remaining, 0, (bool64){0});
    float64 value = v_f32_ld_tnsr_b(coords, t);
    return v_f32_mov_vb(value, 0, (float64)fill, inside, 0);
}

void main(tensor ifm, tensor ofm)
{
    const int depth = 0;
    const int row   = 1;

    const int5 index_space_start = get_index_space_offset();
    const int5 index_space_end   = get_index_space_size() + index_space_start;

    const int depthSize = get_dim_size(ifm, depth);
    int5 coords = {0, 0, 0, 0, 0};

    #pragma loop_taken
    for (int r = index_space_start[row]; r < index_space_end[row]; r++)
    {
        coords[row] = r;
        float running_max = NEG_INF;
        float running_sum = 0.f;

        for (int d = 0; d < depthSize; d += VEC_LEN)
        {
            coords[depth] = d;
            float64 x = masked_load(coords, ifm, depthSize - d, NEG_INF);
            float64 block_max = v_f32_reduce_max(x);
            float new_max = s_f32_max(running_max, block_max[0]);
            float64 e = v_exp_cephes_f32(x - new_max);
            float64 total = v_f32_reduce_add(e);
            running_sum = running_sum * v_exp_cephes_f32((float64)(running_max - new_max))[0] + total[0];
            running_max = new_max;
        }

        const float64 inv = v_reciprocal_f32((float64)running_sum);

        #pragma loop_unroll(2)
        for (int d = 0; d < depthSize; d += VEC_LEN)
        {
            coords[depth] = d;
            float64 x = v_f32_ld_tnsr_b(coords, ifm);
            x = v_exp_cephes_f32(v_f32_sub_b(x, running_max));
            v_f32_st_tnsr(coords, ofm, v_f32_mul_b(x, inv));
        }
    }
}
