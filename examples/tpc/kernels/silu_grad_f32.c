// The derivative of x * s with s = sigmoid(x) is s * (1 + x * (1 - s)).
void main(tensor grad, tensor x, tensor result)
{
    const int5 start = get_index_space_offset();
    const int5 end = get_index_space_size() + start;
    int5 at = {0};

    for (int row = start[1]; row < end[1]; row++) {
        at[1] = row;
        for (int column = start[0] * 64; column < end[0] * 64; column += 64) {
            at[0] = column;
            float64 value = v_f32_ld_tnsr_b(at, x);
            float64 s = v_sigmoid_f32(value);
            float64 slope = s * v_f32_mac_b(value, 1.0f - s, (float64)1.0f);
            v_f32_st_tnsr(at, result, slope * v_f32_ld_tnsr_b(at, grad));
        }
    }
}
