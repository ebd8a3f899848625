import { h, type VNode } from 'vue';

/** Returns the next value of 1, 2, 4 or 8 times a power of ten. An axis that ends there moves seldom. */
export function axisEnd(value: number): number {
  return nextOf([1, 2, 4, 8], value);
}

/** Returns the next multiple of a tick's distance, so that an axis is only a little longer than what it shows. */
export function nearEnd(value: number): number {
  const step = tickStep(value / 8);
  return Math.ceil(value / step - 1e-9) * step;
}

const tickStep = (value: number): number => nextOf([1, 2, 5], value);

/** Returns the smallest of these digits times a power of ten that is not less than a value. */
function nextOf(digits: readonly number[], value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * (digits.find((each) => each * power >= value * (1 - 1e-9)) ?? 10);
}

/** Writes the number of a tick with three digits. */
export function tickText(value: number): string {
  return value !== 0 && value < 1e-3
    ? value.toExponential(0)
    : Number(value.toPrecision(3)).toLocaleString('en', { maximumSignificantDigits: 3 });
}

export interface HorizontalAxis {
  readonly left: number;
  readonly right: number;
  /** The height of the axis. Its numbers are below it. */
  readonly y: number;
  /** The value at the right end. The left end is 0. */
  readonly end: number;
  readonly unit: string;
}

/** The number of equal parts of an axis for which there is room. */
const partsOf = (pixels: number): number => (pixels < 160 ? 1 : pixels < 330 ? 2 : 4);
/** A number that is nearer to the end of the axis than this, in pixels, ends there. */
const NEAR = 30;

/** Draws a horizontal axis with a few numbers. The unit stands beside the last one. */
export function horizontalAxis({ left, right, y, end, unit }: HorizontalAxis): readonly VNode[] {
  const step = Math.min(end, tickStep(end / partsOf(right - left)));
  const count = Math.floor(end / step + 1e-9);
  return [
    h('line', { x1: left, x2: right, y1: y, y2: y, class: 'axis' }),
    ...Array.from({ length: count + 1 }, (_, index) => {
      const x = left + ((right - left) * index * step) / end;
      const anchor = index === 0 ? 'start' : x > right - NEAR ? 'end' : 'middle';
      const text = tickText(index * step);
      return [
        h('line', { x1: x, x2: x, y1: y, y2: y + 4, class: 'axis' }),
        h(
          'text',
          { x, y: y + 17, 'text-anchor': anchor },
          index === count ? `${text} ${unit}` : text,
        ),
      ];
    }).flat(),
  ];
}
