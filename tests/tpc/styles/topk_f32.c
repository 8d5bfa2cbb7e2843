// The k largest elements of each row and their places, by k passes. Ties: the smallest index first.
void main(tensor values_in, tensor values_out, tensor index_out, int k)
{
    const int5 start = get_index_space_offset();
    const int5 end = get_index_space_size() + start;
    const int n = get_dim_size(values_in, 0);
    int64 lane = *(int64*)&(uint64){V_LANE_ID_32};

    for (int r = start[1]; r < end[1]; r++)
    {
        float last = 3.4028235e38f;
        int last_index = -1;
        for (int pass = 0; pass < k; pass++)
        {
            float64 best = -3.4028235e38f;
            int64 best_index = 0x7fffffff;
            for (int c = 0; c < n; c += 64)
            {
                int5 coords = {c, r};
                float64 x = v_f32_ld_tnsr_b(coords, values_in);
                int64 at = lane + c;
                // Elements behind the last one that was taken, in the order of (value, place).
                bool64 open = v_f32_cmp_less_b(x, last);
                bool64 same = v_f32_cmp_eq_b(x, last);
                bool64 later = v_i32_cmp_grt_b(at, last_index);
                open = v_i1_or_b(open, v_i1_and_b(same, later));
                open = v_i1_and_b(open, v_i32_cmp_less_b(at, n));
                bool64 better = v_f32_cmp_grt_vb(x, best, 0, (bool64){0}, open, 0);
                best = v_f32_mov_vb(x, 0, best, better, 0);
                best_index = v_i32_mov_vb(at, 0, best_index, better, 0);
            }
            float64 top = v_f32_reduce_max(best);
            int64 candidate = v_i32_sel_eq_f32_b(best, top, best_index, (int64)0x7fffffff);
            int64 where = v_i32_reduce_min(candidate);
            last = top[0];
            last_index = where[0];
            int5 out_coords = {pass, r};
            v_f32_st_tnsr_partial(out_coords, values_out, top, 0, 0);
            v_i32_st_tnsr_partial(out_coords, index_out, where, 0, 0);
        }
    }
}
