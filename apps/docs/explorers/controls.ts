import { defineComponent, h, onMounted, ref, type Ref, type VNode } from 'vue';

/** The numbers that a slider offers. */
export type SliderRange =
  | { readonly min: number; readonly max: number; readonly step?: number }
  /** Places of the slider, in ascending order. The field takes any number between the first and the last. */
  | { readonly stops: readonly number[] };

/** A slider and a field for the same number, with its unit. */
export function slider(label: string, value: Ref<number>, range: SliderRange, unit = ''): VNode {
  const hasStops = 'stops' in range;
  const track = hasStops ? { min: 0, max: range.stops.length - 1 } : range;
  const limits = hasStops ? { min: range.stops[0], max: range.stops.at(-1), step: 'any' } : range;
  return h('div', { class: 'control' }, [
    h('span', { 'aria-hidden': 'true' }, label),
    h('input', {
      type: 'range',
      'aria-label': label,
      ...track,
      value: hasStops ? nearestStop(range.stops, value.value) : value.value,
      'aria-valuetext': `${value.value} ${unit}`.trim(),
      onInput: (event: Event) => {
        const place = Number((event.target as HTMLInputElement).value);
        value.value = hasStops ? (range.stops[place] ?? value.value) : place;
      },
    }),
    h('div', { class: 'field' }, [
      h('input', {
        type: 'number',
        'aria-label': unit === '' ? `${label}, number` : `${label}, number of ${unit}`,
        ...limits,
        value: value.value,
        onInput: (event: Event) => {
          const field = event.target as HTMLInputElement;
          if (field.value !== '' && field.validity.valid) value.value = field.valueAsNumber;
        },
        // A number that the slider does not offer becomes the nearest one when the reader leaves the field.
        onChange: (event: Event) => {
          const field = event.target as HTMLInputElement;
          if (field.value !== '') value.value = offered(range, field.valueAsNumber);
          field.value = String(value.value);
        },
      }),
      unit === '' ? null : h('span', { 'aria-hidden': 'true' }, unit),
    ]),
  ]);
}

function nearestStop(stops: readonly number[], value: number): number {
  const far = (stop: number): number => Math.abs(Math.log(stop / value));
  return stops.reduce(
    (best, stop, index) => (far(stop) < far(stops[best] ?? Infinity) ? index : best),
    0,
  );
}

/** Returns the number of a range that is nearest to a value. */
function offered(range: SliderRange, value: number): number {
  if ('stops' in range) {
    return Math.min(Math.max(value, range.stops[0] ?? value), range.stops.at(-1) ?? value);
  }
  const { min, max, step = 1 } = range;
  const whole = min + Math.round((value - min) / step) * step;
  return Math.min(Math.max(whole, min), max);
}

/** A choice of one value. The values in `missing` cannot be chosen, and say why. */
export function choice<T extends string | number>(
  label: string,
  value: Ref<T>,
  choices: readonly T[] | Readonly<Record<string, T>>,
  missing: ReadonlyMap<T, string> = new Map(),
): VNode {
  const entries: readonly (readonly [string, T])[] = isList(choices)
    ? choices.map((each) => [String(each), each])
    : Object.entries(choices);
  return h('label', { class: 'control' }, [
    h('span', label),
    h(
      'select',
      {
        'aria-label': label,
        value: value.value,
        onChange: (event: Event) => {
          const found = entries.find(
            ([, each]) => String(each) === (event.target as HTMLSelectElement).value,
          );
          if (found !== undefined) value.value = found[1];
        },
      },
      entries.map(([text, each]) => {
        const reason = missing.get(each);
        return h(
          'option',
          { value: each, selected: each === value.value, disabled: reason !== undefined },
          reason === undefined ? text : `${text}, not available: ${reason}`,
        );
      }),
    ),
  ]);
}

function isList<T>(choices: readonly T[] | Readonly<Record<string, T>>): choices is readonly T[] {
  return Array.isArray(choices);
}

export interface Column {
  readonly title: string;
  readonly isNumber?: boolean;
}

/** The contents of a cell. `text` is what the file of the table contains. */
export type Cell = string | number | { readonly text: string; readonly node: VNode };

/** A table that can also be downloaded as a file. It scrolls by itself on narrow screens. */
export function table(
  caption: string,
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
): VNode {
  return h('div', { class: 'table' }, [
    bareTable(caption, columns, rows),
    fileButton(caption, columns, () => rows),
  ]);
}

function bareTable(
  caption: string,
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
): VNode {
  return h('div', { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': caption }, [
    h('table', [
      h('caption', h('span', caption)),
      h(
        'thead',
        h(
          'tr',
          columns.map(({ title, isNumber }) =>
            h('th', { scope: 'col', class: { number: isNumber } }, title),
          ),
        ),
      ),
      h(
        'tbody',
        rows.map((cells) =>
          h(
            'tr',
            cells.map((cell, index) =>
              index === 0
                ? h('th', { scope: 'row', class: { number: columns[0]?.isNumber } }, [shown(cell)])
                : h('td', { class: { number: columns[index]?.isNumber } }, [shown(cell)]),
            ),
          ),
        ),
      ),
    ]),
  ]);
}

const shown = (cell: Cell): string | VNode => (typeof cell === 'object' ? cell.node : String(cell));

/** The number of rows of a plot's numbers that the page shows. The file contains all of them. */
const SHOWN_ROWS = 100;

/** The numbers of a plot, which the reader can unfold. */
export function numbersOf(
  title: string,
  columns: readonly Column[],
  rows: readonly (readonly (string | number)[])[],
): VNode {
  const latest = rows.slice(-SHOWN_ROWS);
  const caption = latest.length < rows.length ? `${title}, the last ${SHOWN_ROWS} rows` : title;
  return h('details', { class: 'numbers' }, [
    h('summary', { 'aria-label': `Numbers of: ${title}` }, 'Numbers'),
    bareTable(
      caption,
      columns,
      latest.map((cells) => cells.map((cell) => shortNumber(cell))),
    ),
    fileButton(title, columns, () => rows),
  ]);
}

const shortNumber = (cell: string | number): string =>
  typeof cell === 'number' ? String(Number(cell.toPrecision(6))) : cell;

function fileButton(
  title: string,
  columns: readonly Column[],
  rows: () => readonly (readonly Cell[])[],
): VNode {
  return h(
    'button',
    {
      type: 'button',
      class: 'file',
      'aria-label': `Download as CSV: ${title}`,
      onClick: () => downloadTable(title, columns, rows()),
    },
    'CSV',
  );
}

function downloadTable(
  title: string,
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
): void {
  const lines = [columns.map((column) => column.title), ...rows].map((cells) =>
    cells.map((cell) => field(typeof cell === 'object' ? cell.text : String(cell))).join(','),
  );
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([`${lines.join('\r\n')}\r\n`], { type: 'text/csv' }));
  link.download = `${title.replaceAll(/[^\w]+/g, '-').toLowerCase()}.csv`;
  link.click();
  // The browser has begun to read the file by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Quotes a field by RFC 4180. An apostrophe is put in front of a text that a spreadsheet would compute. */
function field(text: string): string {
  const safe = /^[=+@\t]|^-[^\d]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** A change in words, for people who don't see it. */
export function spoken(text: string): VNode {
  return h('p', { class: 'summary', 'aria-live': 'polite' }, text);
}

/** Is inert until the page's script answers to the controls, so that no choice of an early reader is lost. */
const Explorer = defineComponent({
  props: { title: { type: String, required: true } },
  setup(props, { slots }) {
    const isInert = ref(true);
    onMounted(() => {
      isInert.value = false;
    });
    return () =>
      h(
        'section',
        { class: 'explorer', 'aria-label': props.title, inert: isInert.value },
        slots['default']?.(),
      );
  },
});

/** The frame of an explorer. `title` is its name for people who don't see it. */
export function explorer(title: string, parts: readonly (VNode | null)[]): VNode {
  return h(Explorer, { title }, () => [...parts]);
}
