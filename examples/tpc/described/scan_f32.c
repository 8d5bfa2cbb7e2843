// A recurrence over time, as in a state space model: h = decay * h + gain * x, and y = read * h. Channels lie along
// dimension 0, steps along dimension 1. A member follows 64 channels through all steps, and leaves their last state.
void main(tensor x, tensor decay, tensor gain, tensor read, tensor y, tensor state)
{
    const int5 start = get_index_space_offset();
    const int5 end = get_index_space_size() + start;
    const int steps = get_dim_size(x, 1);

    for (int channel = start[0] * 64; channel < end[0] * 64; channel += 64) {
        float64 h = 0;
        for (int step = 0; step < steps; step++) {
            const int5 at = {channel, step};
            float64 entering = v_f32_ld_tnsr_b(at, gain) * v_f32_ld_tnsr_b(at, x);
            h = v_f32_mac_b(v_f32_ld_tnsr_b(at, decay), h, entering);
            v_f32_st_tnsr(at, y, v_f32_ld_tnsr_b(at, read) * h);
        }
        v_f32_st_tnsr((int5){channel, 0}, state, h);
    }
}
