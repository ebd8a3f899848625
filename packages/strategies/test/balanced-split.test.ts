import { ConfigError, LayoutError, type ModelSpec } from '@shardwise/core/extend';
import { describe, expect, test } from 'vitest';
import { balancedSplit } from '../src/pipeline/balanced-split.ts';
import { pipeline } from '../src/pipeline/pipeline.ts';
import { pipelineSchedule } from '../src/pipeline-schedule/pipeline-schedule.ts';

/** A model with parameters of these sizes. */
function modelOf(sizes: Readonly<Record<string, number>>): ModelSpec {
  const parameters = Object.entries(sizes).map(([name, size]) => ({
    name,
    shape: [size],
    dtype: 'f32' as const,
    requiresGrad: true,
    names: [name],
  }));
  return { parameters };
}

const language = modelOf({
  'tokens.weight': 30,
  'blocks.0.up.weight': 20,
  'blocks.0.down.weight': 20,
  'blocks.1.up.weight': 20,
  'blocks.1.down.weight': 20,
  'blocks.2.up.weight': 40,
  'norm.weight': 5,
  'head.weight': 30,
});

test('a single stage needs no cut, of whatever model: one layer, or what has no costs', () => {
  const layer = modelOf({ weight: 4, bias: 1 });
  expect(splitOf(layer, 1)).toEqual([]);
  const plan = pipeline({ microbatches: 2, cut: 'time' }).plan(layer, [{ name: 'pp', size: 1 }]);
  expect(plan.parameters.map(({ parameter }) => parameter.only)).toEqual([
    { axis: 'pp', rank: 0 },
    { axis: 'pp', rank: 0 },
  ]);
});

function splitOf(model: ModelSpec, stages: number): readonly string[] {
  const schedule = pipelineSchedule('gpipe', { ranks: stages, microbatches: 1 });
  return balancedSplit(model, schedule, { by: 'parameters', scale: 1 });
}

describe('cuts that balance parameters', () => {
  test('cuts that balance parameters are at modules of the model and at members of its lists', () => {
    expect(splitOf(language, 1)).toEqual([]);
    expect(splitOf(language, 2)).toEqual(['blocks.2']); // 110 and 75, more balanced than 70 and 115
    expect(splitOf(language, 3)).toEqual(['blocks.1', 'blocks.2']); // The stages have 70, 40 and 75 elements.
    expect(splitOf(language, 6)).toEqual(['blocks.0', 'blocks.1', 'blocks.2', 'norm', 'head']);
  });

  test('cuts that balance parameters are at the members of a Sequential, which is a list itself', () => {
    const model = modelOf({ '0.weight': 6, '2.0.weight': 3, '2.1.weight': 3, '3.weight': 1 });
    expect(splitOf(model, 2)).toEqual(['2.0']);
  });

  test('cuts that balance parameters are refused where there are more stages than modules', () => {
    expect(() => splitOf(language, 7)).toThrow(LayoutError);
    expect(() => splitOf(language, 7)).toThrow(/6 modules in a row: tokens, blocks\.0/);
  });
});

describe('a pipeline without cuts', () => {
  const stagesOf = (options: Parameters<typeof pipeline>[0], size: number): number[] => {
    const { parameters } = pipeline(options).plan(language, [{ name: 'pp', size }]);
    return parameters.map(({ parameter }) => parameter.only?.rank ?? -1);
  };

  test('a pipeline without cuts has a stage for each rank', () => {
    expect(stagesOf({ microbatches: 4 }, 2)).toEqual([0, 0, 0, 0, 0, 1, 1, 1]);
  });

  test('a pipeline without cuts has as many stages as were asked for, or as the schedule takes', () => {
    const twice = [0, 0, 0, 1, 1, 0, 1, 1];
    const four = { microbatches: 4, stages: 4, schedule: 'interleaved1f1b' } as const;
    expect(stagesOf(four, 2)).toEqual(
      stagesOf({ microbatches: 4, schedule: 'interleaved1f1b' }, 2),
    );
    expect(stagesOf(four, 2)).toEqual(twice);
  });

  test('a pipeline without cuts is told what does not fit', () => {
    const cut = ['blocks.1'];
    expect(() => stagesOf({ microbatches: 4, stages: 4, cut }, 2)).toThrow(
      /a pipeline of 4 stages: cuts into 2/,
    );
    const layers = JSON.parse('"layers"');
    expect(() => pipeline({ microbatches: 4, cut: layers })).toThrow(ConfigError);
  });
});
