import {
  axisSize,
  type CollectivePlan,
  currentSession,
  elementCount,
  type Plan,
} from '@shardwise/core/extend';
import { type Reduce, reduce } from '../distributed-data-parallel/reduce.ts';
import { requireSameSettings } from '../plan/agreeing-steps.ts';
import { planError } from '../plan/plan-error.ts';
import { collectedShape, ownerOf, plannedParameters, shardingOf } from '../plan/planned-bytes.ts';
import { type StepKind, stepsOver } from '../plan/step.ts';
import { makeReshardGroups } from './units/after-forward.ts';
import { BLOCK_ELEMENTS } from './quantized/quantize-rows.ts';
import {
  acrossHosts,
  insideHost,
  quantizedMeanBytes,
  type QuantizedReduction,
} from './quantized/quantized-mean.ts';

/** A reduction of parts of gradients whose messages have few bits for each element. */
export interface QuantizedReduce extends Reduce {
  readonly quantized: QuantizedReduction;
}

/** The kind of the step `QuantizedReduce`: a step `reduce` with other messages. */
export const quantizedReduce: StepKind<QuantizedReduce> = {
  name: reduce.name,
  key: reduce,
  collectives(data, plan) {
    const { axis, parameters, quantized, latest, ...others } = data;
    const size = axisSize(plan.axes, axis);
    const exact = reduce.collectives(
      { axis, parameters, ...others, ...(latest && { latest }) },
      plan,
    );
    return exact.flatMap((message): readonly CollectivePlan[] => {
      if (message.operation !== 'reduceScatter') return [message];
      const [planned] = plannedParameters(plan, message.parameters);
      if (planned === undefined) return [];
      const elements = elementCount(collectedShape(plan, planned, axis)) / size;
      if (elements === 0) return [message];
      return quantizedMeanBytes(quantized, axis, size, elements).map((hop) => {
        const { when, parameters: of } = message;
        return { operation: 'allToAll', when, parameters: of, ...hop, ...ownerOf(planned) };
      });
    });
  },
  check(data, context) {
    reduce.check?.(data, context);
    const { axis, parameters } = data;
    const { plan } = context;
    const steps = stepsOver(plan, quantizedReduce, axis);
    requireSameSettings(plan, steps, ({ quantized: { bits, ranksPerHost } }) => {
      return { bits, ranksPerHost };
    });
    if (steps.length < stepsOver(plan, reduce, axis).length) {
      throw planError(
        plan,
        {
          asked: `that reduces gradients over '${axis}' in few bits`,
          found: "a step 'reduce' that sends them as they are",
          todo: 'Have all of these steps send few bits, or none',
        },
        { axis },
      );
    }
    const whole = parameters.find(
      (name) => shardingOf(context.plannedOf(name), 'gradient', axis) === null,
    );
    if (whole === undefined) return;
    throw planError(
      plan,
      {
        asked: `that reduces the gradient of '${whole}' in ${data.quantized.bits} bits`,
        found: 'ranks keep the whole gradient',
        todo: `Have the ranks of '${axis}' keep parts of it, or leave out 'quantized'`,
      },
      { parameter: whole, axis },
    );
  },
  apply: (data, context) => reduce.apply(data, context),
  explain(data, plan) {
    const { axis, quantized } = data;
    const { bits, ranksPerHost } = quantized;
    if (stepsOver(plan, reduce, axis)[0]?.data !== data) return '';
    const hosts = ranksPerHost === 1 ? '' : `, first among the ${ranksPerHost} ranks of a host`;
    return `gradients are sent in ${bits} bits by blocks of ${BLOCK_ELEMENTS} elements${hosts}`;
  },
};

/** How steps of a plan average the gradients of an axis in few bits. Undefined if they send them as they are. */
export function reductionOver(
  plan: Pick<Plan, 'steps'>,
  axis: string,
): QuantizedReduction | undefined {
  return stepsOver(plan, quantizedReduce, axis)[0]?.data.quantized;
}

/** Adds the groups of ranks that a reduction over `size` ranks needs to the mesh. It is a collective. */
export async function makeHostGroups(
  { ranksPerHost: ranks }: QuantizedReduction,
  axis: string,
  size: number,
): Promise<void> {
  if (ranks === 1 || ranks === size) return;
  await makeReshardGroups([{ kind: 'reshard', axis: insideHost(axis, ranks), ranks }], axis);
  await currentSession().extendMesh(acrossHosts(axis, ranks), axis, async (group) => {
    const peers = await group.split(group.rank % ranks, group.rank);
    if (peers !== undefined) return peers;
    throw new TypeError('a rank with a colour is in a group');
  });
}
