/** Figures under names that the script chooses. */
export type NamedMetrics = Readonly<Record<string, number>>;

/** The greatest number of names in a run. */
export const MAX_METRICS = 64;

/** A name begins with a letter or a digit, and is a single line. */
export const METRIC_NAME: RegExp = /^[\p{L}\p{N}][\p{L}\p{M}\p{N} ._/:@%+()#-]{0,63}$/u;

/** Returns the figure of a name. Returns undefined if there is none, also for names such as `constructor`. */
export function figureOf(metrics: NamedMetrics | undefined, name: string): number | undefined {
  return metrics !== undefined && Object.hasOwn(metrics, name) ? metrics[name] : undefined;
}

/**
 * Returns the name of the chart in which a metric is drawn: `accuracy` for `accuracy/train` and `accuracy/validation`.
 */
export function chartOf(name: string): string {
  const end = name.lastIndexOf('/');
  return end > 0 ? name.slice(0, end) : name;
}
