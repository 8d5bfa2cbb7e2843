// c = a b: a has K columns, b has N. A member computes 64 columns of ROWS rows, which share the loads of b.
#ifndef ROWS
#define ROWS 4
#endif

void main(tensor a, tensor b, tensor c)
{
    const int5 start = get_index_space_offset();
    const int5 end = get_index_space_size() + start;
    const int depth = get_dim_size(a, 0);

    for (int tile = start[1]; tile < end[1]; tile++) {
        for (int column = start[0] * 64; column < end[0] * 64; column += 64) {
            float64 sum[ROWS] = {0};
            for (int k = 0; k < depth; k++) {
                float64 line = v_f32_ld_tnsr_b((int5){column, k}, b);
                #pragma loop_unroll(ROWS)
                for (int row = 0; row < ROWS; row++) {
                    float factor = s_f32_ld_g(gen_addr((int5){k, tile * ROWS + row}, a));
                    sum[row] = v_f32_mac_b(line, factor, sum[row]);
                }
            }
            for (int row = 0; row < ROWS; row++)
                v_f32_st_tnsr((int5){column, tile * ROWS + row}, c, sum[row]);
        }
    }
}
