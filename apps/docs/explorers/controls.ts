import { h, type Ref, type VNode } from 'vue';

/** A number that the reader moves, with its value beside it. */
export function slider(
  label: string,
  value: Ref<number>,
  range: { readonly min: number; readonly max: number; readonly step?: number },
  unit = '',
): VNode {
  return h('label', { class: 'control' }, [
    h('span', label),
    h('input', {
      type: 'range',
      'aria-label': label,
      ...range,
      value: value.value,
      'aria-valuetext': `${value.value}${unit}`,
      onInput: (event: Event) => {
        value.value = Number((event.target as HTMLInputElement).value);
      },
    }),
    h('output', `${value.value}${unit}`),
  ]);
}

/** One of several. */
export function choice<T extends string | number>(
  label: string,
  value: Ref<T>,
  choices: readonly T[] | Readonly<Record<string, T>>,
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
      entries.map(([text, each]) =>
        h('option', { value: each, selected: each === value.value }, text),
      ),
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

/** The numbers behind a drawing. It scrolls by itself on narrow screens. */
export function table(
  caption: string,
  columns: readonly Column[],
  rows: readonly (readonly (string | number | VNode)[])[],
): VNode {
  return h('div', { class: 'scroller', tabindex: 0, role: 'region', 'aria-label': caption }, [
    h('table', [
      h('caption', caption),
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
                ? h('th', { scope: 'row' }, [cell])
                : h('td', { class: { number: columns[index]?.isNumber } }, [cell]),
            ),
          ),
        ),
      ),
    ]),
  ]);
}

/** What changed, in words, for those who don't see it. */
export function spoken(text: string): VNode {
  return h('p', { class: 'summary', 'aria-live': 'polite' }, text);
}

/** The frame of an explorer. `title` is its name for those who don't see it. */
export function explorer(title: string, parts: readonly (VNode | null)[]): VNode {
  return h('section', { class: 'explorer', 'aria-label': title }, [...parts]);
}
