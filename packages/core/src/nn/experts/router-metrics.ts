import type { Module } from '../module/module.ts';
import { expertLayers } from './auxiliary-loss.ts';

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
