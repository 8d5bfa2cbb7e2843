// Rotary embedding, halves of a head (neox). Dim 0: head size, dim 1: heads, dim 2: tokens. cos and sin: [half, tokens].
void main(tensor x, tensor cos_t, tensor sin_t, tensor y)
{
    enum { HEAD_DIM, HEADS, TOKENS };
    int5 s = get_index_space_offset(), e = get_index_space_size() + s;
    const int half_size = (int)get_dim_size(x, HEAD_DIM) >> 1;

    for (int tok = s[TOKENS]; tok < e[TOKENS]; tok++)
        for (int h = s[HEADS]; h < e[HEADS]; h++)
            for (int d = 0; d < half_size; d += 64)
            {
                int5 lo = {d, h, tok, 0, 0}, hi = {d + half_size, h, tok, 0, 0}, cs = {d, tok, 0, 0, 0};
                int left = half_size - d;
                int count = s_i32_min(left, 64);
                float64 c  = v_f32_ld_tnsr_b(cs, cos_t, 0, (float64)0.0f, 1, 0);
                float64 sn = v_f32_ld_tnsr_b(cs, sin_t, 0, (float64)0.0f, 1, 0);
                float64 a = v_f32_ld_tnsr_b(lo, x), b = v_f32_ld_tnsr_b(hi, x);
                float64 out_lo = v_f32_mul_b(a, c);
                out_lo = v_f32_mac_b(b, sn, out_lo, SW_NEG);
                float64 out_hi = v_f32_mul_b(b, c);
                out_hi = v_f32_mac_b(a, sn, out_hi, 0);
                if (count == 64) {
                    v_f32_st_tnsr(lo, y, out_lo);
                    v_f32_st_tnsr(hi, y, out_hi);
                } else {
                    v_f32_st_tnsr_partial(lo, y, out_lo, count - 1, 0);
                    v_f32_st_tnsr_partial(hi, y, out_hi, count - 1, 0);
                }
            }
}
