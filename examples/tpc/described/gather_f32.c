// Rows of a table by their numbers. A number that the table does not have gives a row of zeros.
void main(tensor table, tensor numbers, tensor rows)
{
    const int5 start = get_index_space_offset();
    const int5 end = get_index_space_size() + start;
    const int count = get_dim_size(table, 1);

    for (int place = start[1]; place < end[1]; place++) {
        const int number = s_i32_ld_g(gen_addr((int5){place}, numbers));
        const bool known = number >= 0 && number < count;
        for (int column = start[0] * 64; column < end[0] * 64; column += 64) {
            float64 value = v_f32_ld_tnsr_b((int5){column, number}, table, 0, 0, known);
            v_f32_st_tnsr((int5){column, place}, rows, value);
        }
    }
}
