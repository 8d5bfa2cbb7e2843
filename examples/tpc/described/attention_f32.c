// The weights of attention: softmax over the keys of scale * q . k + mask. Keys lie along dimension 0 of `keys`, whose
// dimension 1 is that of a head. A member computes the row of a query.
#define MOST_BLOCKS 64  // rows of up to 4,096 keys

__local__ float64 scores[MOST_BLOCKS];

void main(tensor queries, tensor keys, tensor mask, tensor weights, float scale)
{
    const int5 start = get_index_space_offset();
    const int5 end = get_index_space_size() + start;
    const int count = get_dim_size(keys, 0);
    const int depth = get_dim_size(queries, 0);
    const int blocks = (count + 63) / 64;
    const int64 lane = (int64)V_LANE_ID_32;

    for (int query = start[0]; query < end[0]; query++) {
        float64 largest = -FLT_MAX;
        for (int block = 0; block < blocks; block++) {
            const int first = block * 64;
            float64 score = 0;
            for (int i = 0; i < depth; i++) {
                float factor = s_f32_ld_g(gen_addr((int5){i, query}, queries));
                score = v_f32_mac_b(v_f32_ld_tnsr_b((int5){first, i}, keys), factor, score);
            }
            score = score * scale + v_f32_ld_tnsr_b((int5){first, query}, mask);
            scores[block] = score;
            bool64 inside = lane < count - first;
            largest = v_f32_max_vb(largest, score, 0, largest, inside);
        }
        largest = v_f32_reduce_max(largest);
        float64 sum = 0;
        for (int block = 0; block < blocks; block++) {
            bool64 inside = lane < count - block * 64;
            float64 weight = v_exp_f32(scores[block] - largest);
            weight = inside ? weight : 0.0f;
            scores[block] = weight;
            sum += weight;
        }
        float64 factor = v_reciprocal_f32(v_f32_reduce_add(sum));
        for (int block = 0; block < blocks; block++)
            v_f32_st_tnsr((int5){block * 64, query}, weights, scores[block] * factor);
    }
}
