/** As MixedPrecisionPolicy of PyTorch's fully_shard, and DeepSpeed's fp16 and bf16. */
export interface MixedPrecision {
  /**
   * In which ranks store and collect parameters for forward and backward. Each rank keeps an f32
   * part beside it, which the optimizer updates. Sums and products are computed in f32.
   */
  readonly parameterDtype: 'f16' | 'bf16';
  /** In which gradients are reduced over ranks, and kept. Default: parameterDtype. */
  readonly reduceDtype?: 'f16' | 'bf16' | 'f32';
}
