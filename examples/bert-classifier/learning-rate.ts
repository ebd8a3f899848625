/** The factor of the learning rate at a step from 0: up during the warmup, and then down in a line to 0 at `steps`. */
export function learningRateAt(step: number, steps: number, warmup: number): number {
  if (step < warmup) return (step + 1) / (warmup + 1);
  return (steps - step) / Math.max(1, steps - warmup);
}
