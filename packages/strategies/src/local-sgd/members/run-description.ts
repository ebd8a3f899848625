import type { Plan } from '@shardwise/core/extend';
import { plannedParameters } from '../../plan/planned-bytes.ts';
import type { AggregationRule } from '../aggregation/aggregate.ts';
import type { AuditOptions } from './audit-options.ts';
import { messageBytes, type OuterBits } from '../messages/outer-messages.ts';
import type { Every } from './meeting-times.ts';
import type { RunDescription } from './members.ts';
import { TOKENS_BYTES } from './weighted-update.ts';

/** The options of outer steps on which members must agree. */
interface CommonSettings {
  readonly every: Every;
  readonly fragments: readonly (readonly string[])[];
  readonly fragmentUpdateAlpha: number;
  readonly bits: OuterBits;
  readonly aggregate: AggregationRule;
  readonly faulty: number;
  readonly audit: AuditOptions | null;
  readonly weighted: boolean;
  readonly lr?: number;
  readonly momentum?: number;
  readonly nesterov?: boolean;
}

/** An anchor and a momentum of f32. */
const STATE_BYTES_OF_ELEMENT = 8;

/** The bytes of the message of a fragment with so many elements. */
export function memberMessageBytes(elements: number, bits: OuterBits, weighted: boolean): number {
  return messageBytes(elements, bits) + (weighted ? TOKENS_BYTES : 0);
}

/** Says what all members of a run must have in common. `elements` are those of each fragment. */
export function runDescription(
  {
    every,
    fragments,
    fragmentUpdateAlpha,
    bits,
    aggregate,
    faulty,
    audit,
    weighted,
    ...outer
  }: CommonSettings,
  plan: Plan,
  elements: readonly number[],
): RunDescription {
  const { lr, momentum, nesterov } = outer;
  // An absent option is left out of the text.
  const audited =
    audit === null ? undefined : { samples: audit.samples, batchSize: audit.batchSize };
  const parameters = plannedParameters(plan, fragments.flat());
  return {
    model: parameters.map(({ name, shape }) => `${name} [${shape.join(', ')}]`).join('\n'),
    settings: JSON.stringify({
      every,
      fragments: fragments.length,
      fragmentUpdateAlpha,
      bits,
      aggregate,
      faulty,
      lr,
      momentum,
      nesterov,
      audit: audited,
      weighted: weighted ? true : undefined,
    }),
    messageBytes: elements.map((each) => memberMessageBytes(each, bits, weighted)),
    stateBytes: elements.reduce((sum, each) => sum + each * STATE_BYTES_OF_ELEMENT, 0),
  };
}
