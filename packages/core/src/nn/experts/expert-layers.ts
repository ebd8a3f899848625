import { zeros } from '../../tensor/create.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import type { Module } from '../module/module.ts';
import { MixtureOfExperts } from './mixture-of-experts.ts';
import { currentSession } from '../../rank.ts';
import { ConfigError } from '../../spec/errors.ts';

/** The MixtureOfExperts layers of a model, with their paths. */
function expertLayers(model: Module): readonly (readonly [string, MixtureOfExperts])[] {
  return model
    .namedModules()
    .flatMap(([path, module]) =>
      module instanceof MixtureOfExperts ? [[path, module] as const] : [],
    );
}

/**
 * The balance and z-losses of the experts of a model, for the passes since the last call. Add it to your loss:
 * `loss.add(nn.auxiliaryLoss(model))`. If a step leaves it out, the next pass of the layer throws an error. Shape: [].
 */
export function auxiliaryLoss(model: Module): Tensor {
  return expertLayers(model).reduce((sum, [, layer]) => {
    const loss = layer.takeAuxiliaryLoss();
    return loss === null ? sum : sum.add(loss);
  }, zeros([]));
}

/** The largest number of experts with a metric of their own. More would leave a run no names for its own metrics. */
const MAX_EXPERTS = 16;

/**
 * What the routers of a model did in the latest pass, as metrics of a step: `report({ step, metrics: await
 * nn.routerMetrics(model) })`. The metrics are means over the layers:
 * - `router/imbalance` is 1 if all experts have the same number of routes;
 * - `router/dropped` is the share of dropped routes;
 * - `router/entropy` is the entropy of the shares of tokens, from 0 to 1;
 * - `experts/0`, `experts/1`, … are the shares of routes of each of the first 16 experts.
 *
 * The mean over ranks with different tokens is that of all tokens.
 */
export async function routerMetrics(model: Module): Promise<Record<string, number>> {
  const layers = await Promise.all(
    expertLayers(model).map(([, layer]) => layer.routerStatistics()),
  );
  const mean = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  if (layers.length === 0) return {};
  const experts = Math.min(MAX_EXPERTS, Math.max(...layers.map(({ load }) => load.length)));
  const loads = Array.from({ length: experts }, (_, expert) => {
    const own = layers.flatMap(({ load }) => load[expert] ?? []);
    return [`experts/${expert}`, mean(own)] as const;
  });
  return {
    'router/imbalance': mean(layers.map(({ imbalance }) => imbalance)),
    'router/dropped': mean(layers.map(({ dropRate }) => dropRate)),
    'router/entropy': mean(layers.map(({ entropy }) => entropy)),
    ...Object.fromEntries(loads),
  };
}

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
