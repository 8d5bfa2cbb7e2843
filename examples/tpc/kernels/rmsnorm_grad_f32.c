// With g = grad * weight: dx = r * (g - x * r^2 * mean(g * x)). The gradient of the weight is the sum over rows of
// grad * x * r; each row adds its part in memory, so that rows may run in any order and at once.
void main(tensor grad, tensor x, tensor weight, tensor inverse, tensor dx, tensor dweight)
{
    const int5 start = get_index_space_offset();
    const int5 end = get_index_space_size() + start;
    const int width = get_dim_size(x, 0);

    for (int row = start[0]; row < end[0]; row++) {
        int5 at = {0, row};
        float r = s_f32_ld_g(gen_addr((int5){0, row}, inverse));
        float64 sum = 0;
        for (at[0] = 0; at[0] < width; at[0] += 64) {
            float64 g = v_f32_ld_tnsr_b(at, grad) * v_f32_ld_tnsr_b((int5){at[0]}, weight);
            sum = v_f32_mac_b(g, v_f32_ld_tnsr_b(at, x), sum);
        }
        float64 mean = v_f32_reduce_add(sum) * (r * r / (float)width);
        for (at[0] = 0; at[0] < width; at[0] += 64) {
            int5 column = {at[0]};
            float64 given = v_f32_ld_tnsr_b(at, grad);
            float64 value = v_f32_ld_tnsr_b(at, x);
            float64 g = given * v_f32_ld_tnsr_b(column, weight);
            v_f32_st_tnsr(at, dx, (g - value * mean) * r);
            v_f32_st_tnsr_rmw(column, dweight, given * value * r, RMW_OP_ADD | RMW_DT_FP32);
        }
    }
}
