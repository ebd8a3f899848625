/**
 * A parameter that files have in parts: one tensor for each index of its first dim, in order. The experts of a layer are
 * such, because one product computes all of them.
 */
export interface StackedTensor {
  /** The name of the parameter in the state of the model. Shape: [E, A, B]. */
  readonly name: string;
  /** The names of the tensors in files. Shape: each [A, B], or [B, A] if they are transposed. */
  readonly parts: readonly string[];
  readonly transposed: boolean;
}

/** The matrices of nn.Experts, of which files have one Linear for each expert: `prefix.3.w1.weight`. */
export function stackedExperts(
  prefix: string,
  count: number,
  names: { readonly gate: string; readonly up: string; readonly down: string },
): readonly StackedTensor[] {
  return Object.entries(names).map(([own, name]) => ({
    name: `${prefix}.${own}`,
    parts: Array.from({ length: count }, (_, expert) => `${prefix}.${expert}.${name}.weight`),
    transposed: true,
  }));
}
