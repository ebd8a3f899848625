import { currentSession } from '../../rank.ts';
import { ConfigError } from '../../spec/errors.ts';
import type { Module } from '../module/module.ts';
import { expertLayers } from './auxiliary-loss.ts';

/** The usual names of axes whose ranks have different tokens, and of axes whose ranks share tokens. */
const withOtherTokens: readonly string[] = ['dp', 'ep'];
const withSameTokens: readonly string[] = ['tp', 'pp'];

/**
 * Changes the biases of the experts of a model by the routes of the training passes since the last call, on the ranks
 * of these mesh axes. Name the axes whose ranks have different tokens; the default is `dp` and `ep`, if they exist.
 * Call it once in each step, before the step of the optimizer. Throws ConfigError if the axes have other names and
 * none are given.
 */
export function updateExpertBias(model: Module, axes?: readonly string[]): void {
  const over = axes ?? usualAxes();
  for (const [, layer] of expertLayers(model)) layer.updateBias(over);
}

function usualAxes(): readonly string[] {
  const known = currentSession()
    .mesh.axes.filter(({ size }) => size > 1)
    .map(({ name }) => name);
  const other = known.find((name) => ![...withOtherTokens, ...withSameTokens].includes(name));
  if (other === undefined) return known.filter((name) => withOtherTokens.includes(name));
  throw new ConfigError(
    {
      asked: 'updateExpertBias of a model on all ranks that have other tokens',
      found: `a mesh with the axis '${other}', of which nobody says whether its ranks have`,
      todo: `Name the axes whose ranks have other tokens: updateExpertBias(model, ['${other}'])`,
    },
    { axis: other, axes: known },
  );
}
