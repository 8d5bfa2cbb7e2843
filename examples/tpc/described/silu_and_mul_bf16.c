// y = silu(gate) * up for rows that hold gate and then up, each as wide as y. A member computes 128 elements of a row.
void main(tensor x, tensor y)
{
    const int5 start = get_index_space_offset();
    const int5 end = get_index_space_size() + start;
    const int width = get_dim_size(y, 0);

    for (int row = start[1]; row < end[1]; row++) {
        for (int column = start[0] * 128; column < end[0] * 128; column += 128) {
            float128 gate = v_convert_bf16_to_f32_all_b(v_bf16_ld_tnsr_b((int5){column, row}, x));
            float128 up = v_convert_bf16_to_f32_all_b(v_bf16_ld_tnsr_b((int5){column + width, row}, x));
            float128 result;
            result.v1 = gate.v1 * v_sigmoid_f32(gate.v1) * up.v1;
            result.v2 = gate.v2 * v_sigmoid_f32(gate.v2) * up.v2;
            v_bf16_st_tnsr((int5){column, row}, y, v_convert_f32_to_bf16_all_b(result, SW_RHNE));
        }
    }
}
