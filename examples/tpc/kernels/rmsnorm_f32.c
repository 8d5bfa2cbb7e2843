// y = x * r * weight with r = 1 / sqrt(mean(x^2) + epsilon) of a row. The second output keeps r.
void main(tensor x, tensor weight, tensor y, tensor inverse, float epsilon)
{
    const int5 start = get_index_space_offset();
    const int5 end = get_index_space_size() + start;
    const int width = get_dim_size(x, 0);

    for (int row = start[0]; row < end[0]; row++) {
        int5 at = {0, row};
        float64 sum = 0;  // elements outside the tensor are 0
        for (at[0] = 0; at[0] < width; at[0] += 64) {
            float64 value = v_f32_ld_tnsr_b(at, x);
            sum = v_f32_mac_b(value, value, sum);
        }
        float64 r = v_rsqrt_f32(v_f32_reduce_add(sum) * (1.0f / (float)width) + epsilon);
        for (at[0] = 0; at[0] < width; at[0] += 64) {
            float64 value = v_f32_ld_tnsr_b(at, x) * r;
            v_f32_st_tnsr(at, y, value * v_f32_ld_tnsr_b((int5){at[0]}, weight));
        }
        v_f32_st_tnsr_partial((int5){0, row}, inverse, r, 0, 0);
    }
}
