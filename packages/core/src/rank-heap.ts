/**
 * V8 lets each half of the heap of young objects grow to 16 MiB, which stay resident. Those of a step
 * are few and small: with 4 MiB a step takes as long, and a rank some 10 MiB less.
 */
const semiSpaceMebibytes = 4;

/** For the worker thread of a rank; V8 counts a third half for objects that move. */
export const rankResourceLimits: { readonly maxYoungGenerationSizeMb: number } = {
  maxYoungGenerationSizeMb: 3 * semiSpaceMebibytes,
};

/** For Node in the process of a rank. */
export const rankProcessOptions: readonly string[] = [
  `--max-semi-space-size=${semiSpaceMebibytes}`,
];
