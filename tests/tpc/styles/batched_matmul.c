// c[b] = a[b] x w[b], bf16 in, f32 accumulation, tiles of 4 rows x 128 columns. Dim 2 is the batch.
#define TILE 4
#define FOREACH(OP) OP(0) OP(1) OP(2) OP(3)
#define DECLARE(i) float128 acc##i = {0};
#define STEP(i)                                                                     \
    {                                                                               \
        bf16 factor = s_bf16_ld_g((__global__ bf16*)gen_addr(((int5){k, m + i, b}), a)); \
        acc##i = v_bf16_mac_acc32_b(line, (bfloat128)factor, acc##i);               \
    }
#define STORE(i)                                                                    \
    v_bf16_st_tnsr((int5){n, m + i, b}, c, v_convert_f32_to_bf16_all_b(acc##i));

void main(tensor a, tensor w, tensor c)
{
    const int5 from = get_index_space_offset();
    const int5 to = from + get_index_space_size();
    const int depth = get_dim_size(a, 0);
    for (int b = from[2]; b < to[2]; b++)
        for (int m = from[1] * TILE; m < to[1] * TILE; m += TILE)
            for (int n = from[0] * 128; n < to[0] * 128; n += 128)
            {
                FOREACH(DECLARE)
                for (int k = 0; k < depth; k++)
                {
                    bfloat128 line = v_bf16_ld_tnsr_b((int5){n, k, b}, w);
                    FOREACH(STEP)
                }
                FOREACH(STORE)
            }
}
