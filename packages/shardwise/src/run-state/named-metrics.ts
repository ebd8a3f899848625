/** Figures under names of a script's choice. */
export type NamedMetrics = Readonly<Record<string, number>>;

/** Names in a run. */
export const MAX_METRICS = 64;

/** It begins with a letter or a digit, and is one line. */
export const METRIC_NAME: RegExp = /^[\p{L}\p{N}][\p{L}\p{M}\p{N} ._/:@%+()#-]{0,63}$/u;

/** The figure of that name; undefined where there is none, also for names such as `constructor`. */
export function figureOf(metrics: NamedMetrics | undefined, name: string): number | undefined {
  return metrics !== undefined && Object.hasOwn(metrics, name) ? metrics[name] : undefined;
}

/** The chart in which a metric is drawn: `accuracy` for `accuracy/train` and `accuracy/validation`. */
export function chartOf(name: string): string {
  const end = name.lastIndexOf('/');
  return end > 0 ? name.slice(0, end) : name;
}
