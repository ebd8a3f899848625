import { LayoutError, type ParameterSpec } from '@shardwise/core/extend';
import { describe, expect, test } from 'vitest';
import { stagesOfParameters } from '../src/pipeline/stages/stages-of-parameters.ts';

const parameter = (name: string): ParameterSpec => ({
  name,
  shape: [2],
  dtype: 'f32',
  requiresGrad: true,
  names: [name],
});
const parameters = ['tokens.weight', 'blocks.0.up.weight', 'blocks.1.up.weight', 'head.weight'].map(
  parameter,
);

describe('the stages of parameters', () => {
  test('the stages of parameters follow from their names alone', () => {
    expect(stagesOfParameters({ parameters }, ['blocks.1'])).toEqual([0, 0, 1, 1]);
    expect(stagesOfParameters({ parameters }, ['blocks.0', 'head'])).toEqual([0, 1, 1, 2]);
  });

  test('the stages of parameters follow from modules in the order of the model', () => {
    const modules = ['', 'tokens', 'blocks', 'blocks.0', 'blocks.0.up', 'blocks.1', 'blocks.1.up'];
    const model = { parameters, modules: [...modules, 'head'] };
    expect(stagesOfParameters(model, ['blocks.1'])).toEqual([0, 0, 1, 1]);
  });

  test('the stages of parameters are not made up where modules stand in another order', () => {
    const modules = ['', 'tokens', 'blocks', 'blocks.0', 'blocks.1', 'blocks.0.up', 'blocks.1.up'];
    expect(() => stagesOfParameters({ parameters, modules }, ['blocks.1'])).toThrow(LayoutError);
    expect(() => stagesOfParameters({ parameters, modules }, ['blocks.1'])).toThrow(
      /'blocks\.0\.up', which does not follow 'blocks\.0'/,
    );
  });
});
