// Running sums along the rows: within a register by shifted additions through local memory, then a carry.
#define LANES 64
__local__ float line[2 * LANES];

float64 prefix(float64 v)
{
    for (int i = 0; i < LANES; i++) line[i] = 0.f;
    for (int step = 1; step < LANES; step <<= 1)
    {
        for (int i = 0; i < LANES; i++) line[LANES + i] = v[i];
        for (int i = 0; i < LANES; i++) v[i] = line[LANES + i] + line[LANES + i - step];
    }
    return v;
}

void main(tensor x, tensor y)
{
    int5 s = get_index_space_offset();
    int5 e = s + get_index_space_size();
    int n = get_dim_size(x, 0);
    int blocks = (n + LANES - 1) / LANES;
    for (int row = s[0]; row < e[0]; row++)
    {
        float carry = 0.0f;
        for (int b = 0; b < blocks; b++)
        {
            int5 at = {b * LANES, row};
            float64 v = v_f32_ld_tnsr_b(at, x);
            v = prefix(v) + carry;
            carry = v[LANES - 1];
            v_f32_st_tnsr(at, y, v);
        }
    }
}
