import {
  arange,
  manualSeed,
  nn,
  setRank,
  subscribe,
  type Tensor,
  tensor,
  zeros,
} from '@shardwise/core';
import { randomState } from '@shardwise/core/extend';
import {
  automaticSchedule,
  countModelCosts,
  explain,
  fsdp,
  measureModelCosts,
  type ModelCosts,
  parallelize,
  pipeline,
  stepKinds,
  stepsOf,
  zero,
} from '@shardwise/strategies';
import type { RunStages } from '../src/pipeline/run-stages-key.ts';
import { interpreter } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { beforeEach, describe, expect, it } from 'vitest';
import { Language, languageBatch, languageLoss } from './ranks/pipeline-models.ts';

const rows = 3;
const { ids, targets } = languageBatch(0, rows);
const options = { loss: languageLoss };

function batch(): [Tensor, Tensor] {
  return [tensor(ids, 'i32'), tensor(targets, 'i32')];
}

beforeEach(() => {
  setRank({ device: interpreter() });
  manualSeed(1);
});

describe('what the modules of a model cost', () => {
  it('what the modules of a model cost is counted in the graph of a pass, without computing it', () => {
    const model = new Language();
    const { rows: counted, modules } = countModelCosts(model, batch(), options);
    expect(counted).toBe(rows);
    const paths = modules.map(({ path }) => path);
    expect(paths.join(' ')).toBe('tokens positions blocks.0 blocks.1 blocks.2 blocks.3 norm head');
    // Backward computes as much as forward twice: once for the gradients of inputs and once for those of weights.
    const flops = modules.reduce((sum, module) => sum + module.flops, 0);
    expect(flops).toBe(3 * nn.summary(model, batch()[0]).flops);
    const parameters = modules.reduce((sum, module) => sum + module.parameters, 0);
    expect(parameters).toBe(nn.summary(model).parameters);
    const [, , block, ...others] = modules;
    expect(others[0]).toEqual({ ...block, path: 'blocks.1' });
    // The output is [B, T, C]. The states are parameters, gradients and Adam's two moments.
    expect(block?.outputBytes).toBe(4 * rows * 5 * 8);
    expect(block?.stateBytes).toBe(16 * (block?.parameters ?? 0));
    // Weight gradients also need the gradients of the linear layers' outputs.
    expect(block?.weightGradientBytes).toBeGreaterThan(block?.activationBytes ?? Infinity);
    expect(block?.times).toBeNull();
  });

  it('a backward pass under a checkpoint computes all products of a module again but the last one', () => {
    const { modules } = countModelCosts(
      new nn.Sequential(new Perceptron(), new Perceptron(), new nn.Linear(8, 1)),
      [zeros([5, 8]), zeros([5, 1])],
      { loss: nn.functional.mseLoss },
    );
    const product = 2 * 5 * 8 * 32;
    const counts = modules.map(({ path, flops, recomputedFlops }) => [
      path,
      flops,
      recomputedFlops,
    ]);
    // Nothing needs the gradient of the input of the model.
    expect(counts).toEqual([
      ['0', 5 * product, product],
      ['1', 6 * product, product],
      ['2', 6 * 5 * 8, 2 * 5 * 8],
    ]);
  });

  it.each([
    ['fsdp', false],
    ['zero 3', false],
    ['fsdp', true],
    ['zero 3', true],
  ] as const)(
    'the parameters that are gathered again are those that %s gathers in a backward pass, under checkpoints: %s',
    async (name, isCheckpointed) => {
      const { modules } = countModelCosts(new Language(), batch(), options);
      const gatheredAgain = modules.map(({ regathered, regatheredUnderCheckpoint }) =>
        isCheckpointed ? regatheredUnderCheckpoint : regathered,
      );
      // Of a block: the weight of its norm and those of its products, and no biases. A checkpoint computes the norm and the
      // first product again, and so reads their biases. What is in no block is kept.
      const ofBlock = { elements: 8 + 2 * 8 * 16, tensors: 3 };
      const again = isCheckpointed ? { elements: ofBlock.elements + 8 + 16, tensors: 5 } : ofBlock;
      const none = { elements: 0, tensors: 0 };
      expect(gatheredAgain).toEqual([none, none, again, again, again, again, none, none]);
      await onRanks(2, async () => {
        const model = new Language();
        if (isCheckpointed) {
          for (const block of model.blocks) {
            const forward = block.forward.bind(block);
            block.forward = (x) => nn.checkpoint(() => forward(x));
          }
        }
        const strategy = name === 'fsdp' ? fsdp() : zero({ stage: 3 });
        const parallel = await parallelize(model, strategy);
        const [x, y] = batch();
        const pass = async (): Promise<void> => {
          const loss = languageLoss(parallel.forward(x), y);
          loss.backward();
          await loss.item();
        };
        await pass();
        const gathers: string[] = [];
        const unsubscribe = subscribe(({ name: operation }) => {
          if (operation === 'allGather') gathers.push(operation);
        });
        await pass();
        unsubscribe();
        const once = modules.reduce((sum, { parameterTensors = 0 }) => sum + parameterTensors, 0);
        expect(gathers).toHaveLength(once + 4 * again.tensors);
      });
    },
  );

  it('grows with rows and not with parameters', () => {
    const { ids: more, targets: labels } = languageBatch(0, 2 * rows);
    const twice = countModelCosts(
      new Language(),
      [tensor(more, 'i32'), tensor(labels, 'i32')],
      options,
    );
    const once = countModelCosts(new Language(), batch(), options);
    for (const [index, { flops, stateBytes, outputBytes }] of once.modules.entries()) {
      expect(twice.modules[index]?.flops).toBe(2 * flops);
      expect(twice.modules[index]?.stateBytes).toBe(stateBytes);
      // The output of the positions does not depend on the number of rows.
      if (index > 1) expect(twice.modules[index]?.outputBytes).toBe(2 * outputBytes);
    }
  });

  it('what the modules of a model cost is measured, and leaves gradients, buffers and random numbers as they were', async () => {
    const model = new WithNorm();
    const before = randomState();
    const x = arange(12).to('f32').reshape([4, 3]);
    const costs = await measureModelCosts(model, [x]);
    expect(costs.modules.map(({ path }) => path)).toEqual(['first', 'norm', 'last']);
    for (const { times } of costs.modules) {
      expect(Math.min(...Object.values(times ?? { none: -1 }))).toBeGreaterThanOrEqual(0);
    }
    expect(randomState()).toEqual(before);
    expect(model.parameters().map(({ grad }) => grad)).toEqual(model.parameters().map(() => null));
    expect(await model.norm.runningMean?.data()).toEqual(Float32Array.of(0, 0, 0, 0));
    const [first] = costs.modules;
    expect(countModelCosts(model, [x]).modules[0]).toEqual({ ...first, times: null });
  });

  it('what the modules of a model cost is known of the modules that forward calls in the order of the model', () => {
    const costs = countModelCosts(new OtherOrder(), [arange(6).to('f32').reshape([2, 3])]);
    expect(costs.modules.map(({ path }) => path)).toEqual(['first', 'second']);
  });

  it('what the modules of a model cost is the same where the inputs are constants', () => {
    const model = new OtherOrder();
    const data = arange(6).to('f32').reshape([2, 3]);
    expect(countModelCosts(model, [zeros([2, 3])])).toEqual(countModelCosts(model, [data]));
  });

  it('what the modules of a model cost needs a loss', () => {
    expect(() => countModelCosts(new Language(), [batch()[0]])).toThrow(/and not a loss/);
  });
});

describe('a pipeline that balances what modules cost', () => {
  const axes = [{ name: 'pp', size: 2 }];
  const spec = {
    parameters: ['a', 'b', 'c', 'd'].map((name) => {
      return { name: `${name}.weight`, shape: [10], dtype: 'f32', requiresGrad: true } as const;
    }),
  };
  const module = { parameters: 10, stateBytes: 160, outputBytes: 0, weightGradientBytes: 0 };
  const costs: ModelCosts = {
    rows: 1,
    modules: [
      { ...module, path: 'a', flops: 6, activationBytes: 100, times: timesOf(1) },
      { ...module, path: 'b', flops: 1, activationBytes: 100, times: timesOf(1) },
      { ...module, path: 'c', flops: 1, activationBytes: 100, times: timesOf(1) },
      { ...module, path: 'd', flops: 1, activationBytes: 100, times: timesOf(9) },
    ],
  };
  const stagesOf = (changes: Parameters<typeof pipeline>[0]): number[] =>
    pipeline({ microbatches: 4, costs, ...changes })
      .plan(spec, axes)
      .parameters.map(({ parameter }) => parameter.only?.rank ?? -1);

  it('cuts at other places for parameters, operations, time and memory', () => {
    expect(stagesOf({ cut: 'parameters' })).toEqual([0, 0, 1, 1]);
    expect(stagesOf({ cut: 'flops' })).toEqual([0, 1, 1, 1]);
    expect(stagesOf({ cut: 'time' })).toEqual([0, 0, 0, 1]);
    // 1F1B keeps two microbatches on rank 0 and one on rank 1. This cut takes 720 and 520, the other 360 and 780.
    expect(stagesOf({ cut: 'memory' })).toEqual([0, 0, 1, 1]);
    // With 40 rows, a microbatch has 10 rows and its activations take more memory than states.
    expect(stagesOf({ cut: 'memory', rows: 40 })).toEqual([0, 1, 1, 1]);
    expect(stagesOf({ cut: 'memory', rows: 40, schedule: 'gpipe' })).toEqual([0, 0, 1, 1]);
  });

  it('a pipeline that balances what modules cost says what it has to know', () => {
    const counted = { ...costs, modules: costs.modules.map((each) => ({ ...each, times: null })) };
    const none = { rows: 1, modules: costs.modules.map((each) => ({ ...each, flops: 0 })) };
    const without = (changes: Parameters<typeof pipeline>[0]) => (): unknown =>
      pipeline({ microbatches: 4, ...changes }).plan(spec, axes);
    expect(without({ cut: 'flops' })).toThrow(/balance flops: no costs of its modules.*countModel/);
    expect(without({ cut: 'memory' })).toThrow(/balance memory: no costs of its modules/);
    expect(without({ cut: 'time', costs: counted })).toThrow(/without times.*measureModelCosts/);
    expect(without({ cut: 'flops', costs: none })).toThrow(/modules all cost 0/);
    const six = { schedule: 'interleaved1f1b', stages: 6 } as const;
    expect(without({ cut: 'flops', ...six, costs })).toThrow(/a model of 4 modules in a row/);
    expect(() => pipeline({ microbatches: 4, rows: 8 })).toThrow(/rows, but no costs/);
    const [a] = costs.modules;
    const twice = a === undefined ? costs : { rows: 1, modules: [a, a] };
    expect(without({ cut: 'flops', costs: twice })).toThrow(/module 'a' twice/);
    const elsewhere = a === undefined ? costs : { rows: 1, modules: [a, { ...a, path: 'x' }] };
    expect(without({ cut: 'flops', costs: elsewhere })).toThrow(
      /cut at 'x': no module of this name/,
    );
  });
});

describe('a pipeline that chooses its schedule', () => {
  const axes = [{ name: 'pp', size: 2 }];
  const names = ['a', 'b', 'c', 'd'];
  const spec = {
    parameters: names.map((name) => {
      return { name: `${name}.weight`, shape: [10], dtype: 'f32', requiresGrad: true } as const;
    }),
  };
  const costs: ModelCosts = {
    rows: 1,
    modules: names.map((path) => ({
      path,
      parameters: 10,
      stateBytes: 160,
      flops: 1,
      activationBytes: 100,
      weightGradientBytes: 100,
      outputBytes: 10,
      times: timesOf(1),
    })),
  };
  const stepOf = (changes: Parameters<typeof pipeline>[0]): RunStages => {
    const plan = pipeline({ schedule: 'automatic', costs, rows: 16, ...changes }).plan(spec, axes);
    const [step] = stepsOf(plan, stepKinds.runStages);
    return step?.data ?? expect.fail('no stages');
  };

  it('a pipeline that chooses its schedule takes the one that the pure function takes for the same layers', () => {
    const layer = { forwardMs: 16, inputGradientMs: 16, weightGradientMs: 16 };
    const layers = names.map(() => {
      return { ...layer, activationBytes: 1600, outputBytes: 160, stateBytes: 160 };
    });
    for (const memoryBytes of [10_000, 3000, 1300]) {
      const chosen = automaticSchedule({ layers, ranks: 2, rows: 16, memoryBytes });
      const { schedule, cut } = stepOf({ memoryBytes });
      expect(schedule).toEqual(chosen.schedule);
      expect(cut).toEqual(chosen.boundaries.slice(1, -1).map((place) => names[place]));
    }
  });

  it('a pipeline that chooses its schedule keeps to numbers that are given', () => {
    expect(stepOf({ microbatches: 2, stages: 2 }).schedule).toMatchObject({
      microbatches: 2,
      stages: 2,
    });
  });

  it('a pipeline that chooses its schedule says what it has to know', () => {
    const counted = { ...costs, modules: costs.modules.map((each) => ({ ...each, times: null })) };
    expect(() => stepOf({ memoryBytes: 10 })).toThrow(
      /none of \d+ schedules and cuts fits into memory/,
    );
    expect(() => stepOf({ costs: counted })).toThrow(/counted, without times.*measureModelCosts/);
    expect(() => stepOf({ cut: ['b'] })).toThrow(/a cut beside it/);
    expect(() => stepOf({ stages: 3 })).toThrow(/3 stages on 2 ranks/);
    expect(() => pipeline({ schedule: 'automatic' }).plan(spec, axes)).toThrow(/no costs/);
    expect(() => pipeline({ schedule: 'automatic', costs }).plan(spec, axes)).toThrow(/no rows/);
    const given = pipeline({ microbatches: 2, memoryBytes: 10 });
    expect(() => given.plan(spec, axes)).toThrow(
      /a schedule that was given, so memoryBytes has no effect/,
    );
  });

  it('a pipeline that chooses its schedule is explained per rank: stages, parameters, activations, messages and times with the latency of links', () => {
    const plan = pipeline({
      schedule: '1f1b',
      microbatches: 4,
      cut: 'time',
      costs,
      link: { latencyMs: 1 },
    }).plan(spec, axes);
    expect(explain(plan)).toContain(
      [
        '1f1b: 2 stages on 2 ranks, 4 microbatches',
        'rank  stages  parameters  live  live bytes  sends  sent bytes  works ms  waits ms  inside ms',
        '0     0       20          2     400         4      40          24        10        10',
        '1     1       20          1     200         4      40          24        10        2',
        'makespan 34 ms, bubble 29.412 %, if messages take 1 ms or more',
      ].join('\n'),
    );
  });
});

function timesOf(ms: number): NonNullable<ModelCosts['modules'][number]['times']> {
  return { forwardMs: ms, inputGradientMs: ms, weightGradientMs: ms };
}

/** Shape: x [B, 3] -> []. */
class Perceptron extends nn.Module {
  readonly up = new nn.Linear(8, 32);
  readonly down = new nn.Linear(32, 8);

  forward(x: Tensor): Tensor {
    return this.down.forward(this.up.forward(x).gelu());
  }
}

class WithNorm extends nn.Module {
  readonly first = new nn.Linear(3, 4);
  readonly norm = new nn.BatchNorm1d(4);
  readonly drop = new nn.Dropout(0.5);
  readonly last = new nn.Linear(4, 1);

  forward(x: Tensor): Tensor {
    const hidden = this.norm.forward(this.first.forward(x));
    return this.last.forward(hidden.relu()).add(nn.functional.dropout(hidden, 0.5).sum()).mean();
  }
}

/** Shape: x [B, 3] -> []. */
class OtherOrder extends nn.Module {
  readonly head = new nn.Linear(3, 1);
  readonly first = new nn.Linear(3, 3);
  readonly second = new nn.Linear(3, 3);

  forward(x: Tensor): Tensor {
    return this.head.forward(this.second.forward(this.first.forward(x))).mean();
  }
}
