import type { Kernel } from './kernel.ts';
import type { KernelPlan } from './kernel-plan.ts';

/** The value whose first word has a kernel do nothing: those that replace inputs look at the words of checks first. */
export function guardOf(
  { faults, inPlace }: Pick<KernelPlan, 'faults' | 'inPlace'>,
  { writes }: Kernel,
): number | undefined {
  return faults !== undefined && writes.some((id) => inPlace.has(id)) ? faults : undefined;
}
