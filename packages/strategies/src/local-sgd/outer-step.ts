import type { OuterSettings } from './outer-optimizer-settings.ts';

/**
 * Makes a step of SGD by an outer gradient, in place. It is computed on the host, and every operation rounds to f32. So
 * all ranks have the same bits after it, whatever device each of them trains on. A momentum of zeros is that of the first
 * step. Shape: values [n], gradient [n], momentum [n].
 */
export function outerStep(
  values: Float32Array,
  gradient: Float32Array,
  momentum: Float32Array,
  settings: OuterSettings,
): void {
  const rate = Math.fround(settings.lr);
  const kept = Math.fround(settings.momentum);
  const { nesterov } = settings;
  for (let index = 0; index < values.length; index++) {
    const own = gradient[index] ?? 0;
    const next = Math.fround(Math.fround(kept * (momentum[index] ?? 0)) + own);
    momentum[index] = next;
    const direction = nesterov ? Math.fround(own + Math.fround(kept * next)) : next;
    values[index] = (values[index] ?? 0) - Math.fround(rate * direction);
  }
}
