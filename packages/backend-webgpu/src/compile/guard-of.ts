import type { Kernel } from './kernel.ts';
import type { KernelPlan } from './kernel-plan.ts';

/**
 * The value whose first word, if it is not 0, keeps a kernel from doing anything. Kernels that replace inputs look at
 * the words of checks first. Undefined for other kernels.
 */
export function guardOf(
  { faults, inPlace }: Pick<KernelPlan, 'faults' | 'inPlace'>,
  { writes }: Kernel,
): number | undefined {
  return faults !== undefined && writes.some((id) => inPlace.has(id)) ? faults : undefined;
}
