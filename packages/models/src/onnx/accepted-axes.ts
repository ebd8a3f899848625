import type { SizeAxis } from './dynamic-axes.ts';
import type { Traces } from './traces.ts';

/**
 * The axes with the largest sizes that the model accepts, where only the config says how large they may be. RoBERTa, for
 * example, uses some of its positions for padding. What the model throws for the sample is thrown.
 */
export function acceptedAxes<Inputs extends readonly unknown[]>(
  traces: Traces<Inputs>,
  axes: readonly SizeAxis[],
): readonly SizeAxis[] {
  const seen = axes.map((axis) => axis.seen);
  traces.at(seen);
  return axes.map((axis, index) => {
    if (!axis.isOfConfig || !axis.isLimited) return axis;
    const accepts = (size: number): boolean => {
      try {
        traces.at(seen.with(index, size));
        return true;
      } catch {
        return false;
      }
    };
    let [most, tooMany] = [Math.min(axis.seen, axis.max), axis.max + 1];
    if (accepts(axis.max)) most = axis.max;
    while (most + 1 < tooMany) {
      const middle = Math.floor((most + tooMany) / 2);
      if (accepts(middle)) most = middle;
      else tooMany = middle;
    }
    return { ...axis, max: most };
  });
}
