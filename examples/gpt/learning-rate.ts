/** Linear warm-up, then a cosine down to a tenth (Radford et al. 2019; Hoffmann et al. 2022). `step` counts updates done. */
export function learningRateFactor(step: number, warmupSteps: number, totalSteps: number): number {
  if (step < warmupSteps) return (step + 1) / warmupSteps;
  const progress = Math.min(1, (step - warmupSteps) / Math.max(1, totalSteps - warmupSteps));
  return 0.1 + 0.45 * (1 + Math.cos(Math.PI * progress));
}
