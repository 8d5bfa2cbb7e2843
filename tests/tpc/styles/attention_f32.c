// Flash-style attention of one query at a time: dim 0 head size (<= 64), dim 1 positions, dim 2 heads. Causal.
struct state {
    float maximum;
    float sum;
    float64 value;
};

static inline void add_key(struct state* s, float score, float64 v)
{
    float larger = score > s->maximum ? score : s->maximum;
    float old = v_exp_f32(s->maximum - larger)[0];
    float now = v_exp_f32(score - larger)[0];
    s->value = s->value * old + v * now;
    s->sum = s->sum * old + now;
    s->maximum = larger;
}

void main(tensor q, tensor k, tensor v, tensor o, float scale, int causal)
{
    const int5 start = get_index_space_offset();
    const int5 end = get_index_space_size() + start;
    const int keys = get_dim_size(k, 1);
    int5 kv = {0};
    int5 qo = {0};
    for (int head = start[2]; head < end[2]; head++)
    {
        kv[2] = qo[2] = head;
        for (int query = start[1]; query < end[1]; query++)
        {
            qo[1] = query;
            float64 vq = v_f32_ld_tnsr_b(qo, q);
            vq *= scale;
            struct state s = {-1e30f, 0.0f, 0};
            int last = causal ? query + 1 : keys;
            last = last < keys ? last : keys;
            for (int key = 0; key < last; ++key)
            {
                kv[1] = key;
                float64 dot = v_f32_reduce_add(vq * v_f32_ld_tnsr_b(kv, k));
                add_key(&s, dot[0], v_f32_ld_tnsr_b(kv, v));
            }
            v_f32_st_tnsr(qo, o, s.value * v_reciprocal_fast_f32((float64)s.sum));
        }
    }
}
