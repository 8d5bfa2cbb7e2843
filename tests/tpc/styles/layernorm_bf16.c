// LayerNorm of bf16 rows with float accumulation; gamma and beta in bf16. Two statistics are written as f32.
#if !defined(EPS)
#define EPS 1e-5f
#endif

typedef float128 f32x2;

inline f32x2 widen(bfloat128 v)
{
    return v_convert_bf16_to_f32_all_b(v);
}

inline bfloat128 narrow(f32x2 v)
{
    return v_convert_f32_to_bf16_all_b(v, SW_RHNE);
}

void main(const tensor input, const tensor beta, const tensor gamma, tensor output, tensor mean_out, tensor istd_out)
{
    const int5 start = get_index_space_offset();
    const int5 end   = start + get_index_space_size();
    const unsigned width = get_dim_size(input, 0);
    const float inv_width = 1.0f / (float)(int)width;
    int5 in_coord = {0};
    int5 par_coord = {0};

    for (int row = start[1]; row < end[1]; ++row)
    {
        in_coord[1] = row;
        f32x2 acc = {0}, acc2 = {0};

        for (unsigned c = 0; c < width; c += 128)
        {
            in_coord[0] = c;
            f32x2 v = widen(v_bf16_ld_tnsr_b(in_coord, input));
            acc.v1 += v.v1;
            acc.v2 += v.v2;
            acc2.v1 = v_f32_mac_b(v.v1, v.v1, acc2.v1);
            acc2.v2 = v_f32_mac_b(v.v2, v.v2, acc2.v2, SW_NO_NEG);
        }
        float64 mean = v_f32_reduce_add(acc.v1 + acc.v2) * inv_width;
        float64 var  = v_f32_reduce_add(acc2.v1 + acc2.v2) * inv_width - mean * mean;
        var = v_f32_max_b(var, 0.0f);
        float64 istd = v_rsqrt_fast_f32(var + EPS);

        for (unsigned c = 0; c < width; c += 128)
        {
            in_coord[0] = par_coord[0] = c;
            f32x2 v = widen(v_bf16_ld_tnsr_b(in_coord, input));
            f32x2 g = widen(v_bf16_ld_tnsr_b(par_coord, gamma));
            f32x2 b = widen(v_bf16_ld_tnsr_b(par_coord, beta));
            v.v1 = (v.v1 - mean) * istd * g.v1 + b.v1;
            v.v2 = (v.v2 - mean) * istd * g.v2 + b.v2;
            v_bf16_st_tnsr(in_coord, output, narrow(v));
        }
        int5 stat = {0, row};
        v_f32_st_tnsr_partial(stat, mean_out, mean, 0, 0);
        v_f32_st_tnsr_partial(stat, istd_out, istd, 0, 0);
    }
}
