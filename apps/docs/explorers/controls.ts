import { defineComponent, h, onMounted, ref, type Ref, type VNode } from 'vue';

/** A slider for a number. Beside it stands its value: the number and a unit, or the text that `say` returns. */
export function slider(
  label: string,
  value: Ref<number>,
  range: { readonly min: number; readonly max: number; readonly step?: number },
  say: string | ((value: number) => string) = '',
): VNode {
  const said = typeof say === 'string' ? `${value.value}${say}` : say(value.value);
  return h('label', { class: 'control' }, [
    h('span', label),
    h('input', {
      type: 'range',
      'aria-label': label,
      ...range,
      value: value.value,
      'aria-valuetext': said,
      onInput: (event: Event) => {
        value.value = Number((event.target as HTMLInputElement).value);
      },
    }),
    h('output', said),
  ]);
}

/** If a choice has a longer text than this, its control is twice as wide. */
const NARROW_CHARACTERS = 17;

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
  const isWide = entries.some(([text]) => text.length > NARROW_CHARACTERS);
  return h('label', { class: { control: true, wide: isWide } }, [
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
                ? h('th', { scope: 'row' }, [shown(cell)])
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
