// y = x * sigmoid(x), for every element. A member of the index space has 64 elements of dimension 0, and one row.
void main(tensor x, tensor y)
{
    const int5 start = get_index_space_offset();
    const int5 end = get_index_space_size() + start;
    int5 at = {0};

    for (int row = start[1]; row < end[1]; row++) {
        at[1] = row;
        #pragma loop_unroll(4)
        for (int column = start[0] * 64; column < end[0] * 64; column += 64) {
            at[0] = column;
            float64 value = v_f32_ld_tnsr_b(at, x);
            v_f32_st_tnsr(at, y, value * v_sigmoid_f32(value));
        }
    }
}
