/* gelu: KIND 0 exact (erf), 1 tanh approximation, 2 sigmoid ("quick"), 3 exact by a rational approximation of erf. */
#ifndef KIND
#define KIND 0
#endif
#define SQRT_2_OVER_PI 0.7978845608028654f
#define C1 0.044715f

#if KIND == 3
static float64 erf_poly(float64 z)
{
    /* Abramowitz and Stegun 7.1.26 */
    float64 az = v_f32_abs_b(z);
    float64 t = v_reciprocal_f32(v_f32_mac_b(az, 0.3275911f, (float64)1.0f));
    float64 p = v_f32_mac_b(t, 1.061405429f, (float64)-1.453152027f);
    p = v_f32_mac_b(t, p, (float64)1.421413741f);
    p = v_f32_mac_b(t, p, (float64)-0.284496736f);
    p = v_f32_mac_b(t, p, (float64)0.254829592f);
    p *= t;
    float64 r = 1.0f - p * v_exp_f32(-(az * az));
    uint64 sign = *((uint64*)&z) & 0x80000000;
    uint64 bits = *((uint64*)&r) | sign;
    return *((float64*)&bits);
}
#endif

void main(tensor in0, tensor out0)
{
    const int5 indexSpaceStart = get_index_space_offset();
    const int5 indexSpaceEnd = get_index_space_size() + indexSpaceStart;
    int5 targetCoord = { 0 };
    for (int i0 = indexSpaceStart[0] * 64; i0 < indexSpaceEnd[0] * 64; i0 += 64)
    {
        targetCoord[0] = i0;
        #pragma unroll(4)
        for (int i1 = indexSpaceStart[1]; i1 < indexSpaceEnd[1]; i1 += 1)
        {
            targetCoord[1] = i1;
            float64 x = v_f32_ld_tnsr_b(targetCoord, in0);
            float64 y;
#if KIND == 0
            y = 0.5f * x * (1.0f + v_erf_f32(x * 0.70710678118654752f));
#elif KIND == 1
            float64 u = SQRT_2_OVER_PI * (x + C1 * x * x * x);
            y = 0.5f * x * (1.0f + v_tanh_f32(u));
#elif KIND == 2
            y = x * v_sigmoid_f32(1.702f * x);
#else
            y = 0.5f * x * (1.0f + erf_poly(x * 0.70710678118654752f));
#endif
            v_f32_st_tnsr(targetCoord, out0, y);
        }
    }
}
