import type { Phase } from '@shardwise/core/extend';
import { pixel } from '../report/chart-frame.ts';
import { colours } from '../report/colours.ts';
import { escapeHtml } from '../text/escape-html.ts';
import { formatMilliseconds } from '../text/format.ts';
import { percent } from './advice.ts';
import {
  moduleTree,
  type ModuleNode,
  type ProfileSummary,
  stepParts,
  type StepPart,
} from './summarize.ts';

const WIDTH = 1100;
const ROW = 22;
/** Narrower boxes can't be seen. */
const MIN_WIDTH = 0.4;
const MAX_BOXES = 4000;

export const phaseColours: Readonly<Record<Phase, string>> = {
  forward: colours.compute,
  backward: colours.inputGradient,
  recomputation: 'var(--red)',
  optimizer: colours.graph,
};
export const partColours: Readonly<Record<StepPart, string>> = {
  computeMs: colours.compute,
  betweenMs: colours.weightGradient,
  waitMs: colours.communication,
  dataMs: colours.data,
  graphMs: colours.graph,
  compileMs: 'var(--red)',
  hostMs: colours.other,
};

/** A box of the graph. Boxes below it lie within it. */
interface Box {
  readonly name: string;
  readonly ms: number;
  readonly colour: string;
  readonly below: readonly Box[];
}

/**
 * Draws where the time of a step went: below the step, its modules with the modules in them, and at the bottom the
 * operations, in the colours of their phases. A click shows a box in full width.
 */
export function flameGraph(profile: ProfileSummary): string {
  const root: Box = {
    name: 'step',
    ms: profile.stepMs,
    colour: 'var(--lane)',
    below: [
      ...boxOf(moduleTree(profile.rows)).below,
      ...stepParts
        .filter(([key]) => key !== 'computeMs')
        .map(([key, name]) => ({
          name,
          ms: profile.times[key],
          colour: partColours[key],
          below: [],
        })),
    ],
  };
  const boxes: string[] = [];
  let depths = 0;
  const draw = (box: Box, left: number, depth: number): void => {
    const width = (box.ms / root.ms) * WIDTH;
    if (width < MIN_WIDTH || boxes.length >= MAX_BOXES) return;
    depths = Math.max(depths, depth + 1);
    boxes.push(boxText(box, left, width, depth, root.ms));
    let at = left;
    for (const below of box.below) {
      draw(below, at, depth + 1);
      at += (below.ms / root.ms) * WIDTH;
    }
  };
  draw(root, 0, 0);
  return `<svg class="chart flame" viewBox="0 0 ${WIDTH} ${depths * ROW}" role="img" aria-label="Flame graph of a step">${boxes.join('')}</svg>`;
}

function boxOf(node: ModuleNode): Box {
  const own = node.rows.filter(
    (row) => row.module === node.path || (row.module === '' && node.path.startsWith('(')),
  );
  return {
    name: node.name,
    ms: node.ms,
    colour: 'color-mix(in srgb,var(--teal) 45%,var(--card))',
    below: [
      ...node.children.map(boxOf),
      ...own.map(({ op, phase, ms }) => ({
        name: `${op} (${phase})`,
        ms,
        colour: phaseColours[phase],
        below: [],
      })),
    ],
  };
}

function boxText(
  { name, ms, colour }: Box,
  left: number,
  width: number,
  depth: number,
  stepMs: number,
): string {
  const y = depth * ROW;
  const tip = `${name}\n${formatMilliseconds(ms)}, ${percent(ms / stepMs)} of the step`;
  const shown = name.slice(0, Math.max(0, Math.floor((width - 8) / 6.6)));
  return `<g data-x="${left.toFixed(2)}" data-w="${width.toFixed(2)}" data-y="${y}" data-name="${escapeHtml(name)}"><rect class="box" style="fill:${colour}" x="${pixel(left)}" y="${y}" width="${pixel(Math.max(0.4, width - 0.5))}" height="${ROW - 2}" rx="2" data-tip="${escapeHtml(tip)}"/><text x="${pixel(left + 4)}" y="${y + 14}" class="flame-name">${escapeHtml(shown)}</text></g>`;
}

/** The script that shows a box of a flame graph in full width. It is plain JavaScript. */
export const flameScript: string = `
for (const chart of document.querySelectorAll('svg.flame')) {
  const boxes = [...chart.querySelectorAll('g')];
  const numbers = (box) => ['x', 'w', 'y'].map((key) => Number(box.dataset[key]));
  const show = (x, w, y) => {
    for (const box of boxes) {
      const [left, width, top] = numbers(box);
      const isAbove = top <= y && left <= x + 0.01 && left + width >= x + w - 0.01;
      const isBelow = left >= x - 0.01 && left + width <= x + w + 0.01;
      box.style.display = isAbove || isBelow ? '' : 'none';
      const start = isAbove ? 0 : ((left - x) / w) * ${WIDTH};
      const size = isAbove ? ${WIDTH} : (width / w) * ${WIDTH};
      const [rect, text] = box.children;
      rect.setAttribute('x', start);
      rect.setAttribute('width', Math.max(0.4, size - 0.5));
      text.setAttribute('x', start + 4);
      text.textContent = box.dataset.name.slice(0, Math.max(0, Math.floor((size - 8) / 6.6)));
    }
  };
  for (const box of boxes) box.addEventListener('click', () => show(...numbers(box)));
}
`;
