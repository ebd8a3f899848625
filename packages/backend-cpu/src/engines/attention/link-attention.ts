import type { LoopCode } from '../../lanes/loop-code.ts';
import type { CompiledPartition } from '../../program/partition.ts';
import type { AttentionWork, PagedAttentionWork } from '../../program/work/attention-work.ts';
import type { ProductResources } from '../products/run-parts.ts';
import { CompiledAttention } from './compiled-attention.ts';
import { PagedAttention, type PagedPlans } from './paged-attention.ts';
import { planAttention } from './plan-attention.ts';
import { RangedAttention } from './ranged-attention.ts';

/** Links attention. Which keys it skips is planned now, or found anew in each run if it depends on data. */
export function linkAttention(
  memory: WebAssembly.Memory,
  work: AttentionWork | PagedAttentionWork,
  resources: ProductResources,
  loops: LoopCode,
  plans: PagedPlans,
): CompiledPartition {
  if (work.kind === 'paged') return new PagedAttention(memory, work, resources, loops, plans);
  const { params, mask, keyRanges } = work;
  // A causal attention with a mask has ranges too: one product adds one matrix to scores, and that is the mask.
  const isRanged = keyRanges !== null || (params.causal && mask !== null);
  if (isRanged) return new RangedAttention(memory, work, resources, loops);
  return new CompiledAttention(memory, planAttention(memory, work, resources, loops), resources);
}
