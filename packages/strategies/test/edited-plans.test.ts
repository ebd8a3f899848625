import { manualSeed, optim, type Strategy, subscribe } from '@shardwise/core';
import { replicated } from '@shardwise/core/extend';
import {
  applyPlan,
  collectivesOf,
  colwiseParallel,
  ddp,
  fsdp,
  layoutOf,
  type ModelPlan,
  planFor,
  rowwiseParallel,
  Step,
  stepKinds,
  stepsOf,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { describeDifference } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { failureOf } from './failure-of.ts';
import { globalBatch, tasks } from './ranks/models.ts';

interface Edit {
  readonly strategy: Strategy;
  readonly edit: (plan: ModelPlan) => ModelPlan;
  /** Whether all ranks of the axis have the same batch. */
  readonly sharesBatch?: boolean;
}

const { 'a GPT': task } = tasks;
const weight = 'blocks.1.up.weight';

/** Changes all layouts of one parameter. */
function laidOut(plan: ModelPlan, name: string, dims: readonly (string | null)[]): ModelPlan {
  const layout = layoutOf(dims);
  const parameters = plan.parameters.map((each) =>
    each.name === name ? { ...each, parameter: layout, gradient: layout, optimizer: layout } : each,
  );
  return { ...plan, parameters };
}

function mapSteps(
  plan: ModelPlan,
  map: (step: ModelPlan['steps'][number]) => readonly ModelPlan['steps'][number][],
): ModelPlan {
  return { ...plan, steps: plan.steps.flatMap(map) };
}

const edits: Readonly<Record<string, Edit>> = {
  'ddp, two buckets joined': {
    strategy: ddp({ bucketBytes: 2048 }),
    edit: (plan) => {
      const [first, second] = stepsOf(plan, stepKinds.reduce);
      if (first === undefined || second === undefined) throw new RangeError('two buckets');
      const parameters = [...first.data.parameters, ...second.data.parameters];
      return mapSteps(plan, (step) => {
        if (step === first) return [first.with({ parameters })];
        return step === second ? [] : [step];
      });
    },
  },
  'ddp, all gradients in one bucket': {
    strategy: ddp({ bucketBytes: 1024 }),
    edit: (plan) => {
      const all = stepsOf(plan, stepKinds.reduce);
      const parameters = all.flatMap(({ data }) => data.parameters);
      return mapSteps(plan, (step) => {
        if (step === all[0]) return [all[0].with({ parameters })];
        return Step.is(step, stepKinds.reduce) ? [] : [step];
      });
    },
  },
  'ddp, one parameter sharded': {
    strategy: ddp(),
    edit: (plan) => {
      const gather = new Step(stepKinds.gather, {
        axis: 'dp',
        unit: 'blocks.1',
        parameters: [weight],
        reshardAfterForward: true,
        prefetch: 1,
      });
      return { ...laidOut(plan, weight, ['dp', null]), steps: [...plan.steps, gather] };
    },
  },
  'fsdp, one unit not resharded': {
    strategy: fsdp(),
    edit: (plan) =>
      mapSteps(plan, (step) =>
        Step.is(step, stepKinds.gather) && step.data.unit === 'blocks.1'
          ? [step.with({ reshardAfterForward: false })]
          : [step],
      ),
  },
  'fsdp, two units reduced together': {
    strategy: fsdp(),
    edit: (plan) => {
      const reduces = stepsOf(plan, stepKinds.reduce);
      const [first, second] = reduces;
      if (first === undefined || second === undefined) throw new RangeError('two units');
      const parameters = [...first.data.parameters, ...second.data.parameters];
      return mapSteps(plan, (step) => {
        if (step === first) return [first.with({ parameters })];
        return step === second ? [] : [step];
      });
    },
  },
  'fsdp, one parameter replicated': {
    strategy: fsdp(),
    edit: (plan) => laidOut(plan, weight, [null, null]),
  },
  'zero-2, one parameter replicated': {
    strategy: zero({ stage: 2 }),
    edit: (plan) => laidOut(plan, weight, [null, null]),
  },
  'tensor parallelism, one block replicated': {
    strategy: tensorParallel(
      { 'blocks.*.up': colwiseParallel(), 'blocks.*.down': rowwiseParallel() },
      { axis: 'dp', tokens: globalBatch * 6 },
    ),
    sharesBatch: true,
    edit: (plan) => {
      const names = ['up.weight', 'up.bias', 'down.weight'].map((name) => `blocks.1.${name}`);
      const whole = plan.parameters.map((each) => {
        const layout = replicated(each.shape);
        return names.includes(each.name)
          ? { ...each, parameter: layout, gradient: layout, optimizer: layout }
          : each;
      });
      return mapSteps({ ...plan, parameters: whole }, (step) =>
        Step.is(step, stepKinds.runLayer) && step.data.module.startsWith('blocks.1.') ? [] : [step],
      );
    },
  },
};

/** Edits of plans that every rank must refuse. */
const refused: Readonly<Record<string, Edit & { readonly says: RegExp }>> = {
  'a parameter that nothing reduces': {
    says: /no step reduces its gradient over 'dp'/,
    strategy: ddp(),
    edit: (plan) =>
      mapSteps(plan, (step) =>
        Step.is(step, stepKinds.reduce)
          ? [step.with({ parameters: step.data.parameters.filter((name) => name !== weight) })]
          : [step],
      ),
  },
  'a parameter in two buckets': {
    says: /two steps that reduce it/,
    strategy: ddp(),
    edit: (plan) => ({
      ...plan,
      steps: [...plan.steps, new Step(stepKinds.reduce, { axis: 'dp', parameters: [weight] })],
    }),
  },
  'a layer whose parameters are not laid out for it': {
    says: /the plan gives it to them as invariant.*Change its layout in the plan/s,
    strategy: tensorParallel({ 'blocks.*.up': colwiseParallel() }, { axis: 'dp' }),
    edit: (plan) => laidOut(plan, weight, [null, null]),
  },
  'a part that nothing gathers': {
    says: /to shard the module 'blocks\.9' as a unit/,
    strategy: fsdp(),
    edit: (plan) =>
      mapSteps(plan, (step) =>
        Step.is(step, stepKinds.gather) && step.data.unit === 'blocks.1'
          ? [step.with({ unit: 'blocks.9' })]
          : [step],
      ),
  },
};

const size = 2;
const tolerance = { rtol: 0, atol: 5e-6 };

/** Trains by an edited plan, and expects the messages that it says. Returns the losses and the messages of a step. */
async function train(
  { strategy, edit, sharesBatch = false }: Edit,
  rank: number,
): Promise<{ readonly losses: readonly number[]; readonly ran: readonly string[] }> {
  manualSeed(0);
  const model = task.build();
  const parallel = await applyPlan(edit(planFor(model, strategy)), model);
  const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-2 });
  const losses: number[] = [];
  const ran: string[] = [];
  const unsubscribe = subscribe(({ category, name, bytes = 0 }) => {
    if (category === 'collective') ran.push(`${name} ${bytes}`);
  });
  const share = globalBatch / size;
  for (let step = 0; step < 4; step++) {
    const { x, y } = sharesBatch
      ? task.batch(step, 0, globalBatch)
      : task.batch(step, rank * share, (rank + 1) * share);
    optimizer.zeroGrad();
    ran.length = 0;
    const loss = task.loss(parallel.forward(x), y);
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  unsubscribe();
  const planned = collectivesOf(parallel.plan)
    .filter(({ when }) => when !== 'start')
    .map(({ operation, bytes }) => `${operation} ${bytes}`);
  expect(ran.toSorted()).toEqual(planned.toSorted());
  return { losses, ran };
}

describe(`a plan that was edited, on ${size} ranks`, () => {
  // The edits share what ranks have compiled.
  it('trains with the same losses, and communicates what it says, and something else than before', async () => {
    await onRanks(
      size,
      async ({ rank }) => {
        for (const [name, edited] of Object.entries(edits)) {
          const before = await train({ ...edited, edit: (plan) => plan }, rank);
          const after = await train(edited, rank);
          expect(describeDifference(after.losses, before.losses, tolerance), name).toBeUndefined();
          expect(after.ran, name).not.toEqual(before.ran);
        }
      },
      onCpu,
    );
  });

  it.each(Object.entries(refused))(
    'is refused before anything changes: %s',
    async (_, { strategy, edit, says }) => {
      await onRanks(
        size,
        async () => {
          const model = task.build();
          const failure = await failureOf(applyPlan(edit(planFor(model, strategy)), model));
          expect(failure?.message).toMatch(says);
        },
        onCpu,
      );
    },
  );
});
