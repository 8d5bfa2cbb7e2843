// rows[index[i]] += updates[i] by scalars: ld_g and st_g with addresses that move on. One member has all of it.
void main(tensor index, tensor updates, tensor rows)
{
    const int count = get_dim_size(index, 0);
    const int width = get_dim_size(updates, 0);
    const int height = get_dim_size(rows, 1);
    int5 zero = {0};
    __global__ int* index_ptr = (__global__ int*)gen_addr(zero, index);

    for (int r = 0; r < height; r++)
        for (int c = 0; c < width; c += 64)
            v_f32_st_tnsr((int5){c, r}, rows, (float64)0.f);

    for (int i = 0; i < count; i++)
    {
        int target = s_i32_ld_g(index_ptr + i);
        if (target < 0)
            target += height;
        if (target >= height || target < 0)
            continue;
        int5 from = {0, i}, to = {0, target};
        __global__ float* src = (__global__ float*)gen_addr(from, updates);
        __global__ float* dst = (__global__ float*)gen_addr(to, rows);
        for (int c = 0; c < width; c++)
        {
            float sum = s_f32_add(s_f32_ld_g(dst), s_f32_ld_g(src));
            s_f32_st_g(dst, sum);
            src++;
            dst = dst + 1;
        }
    }
}
