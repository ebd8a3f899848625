import type { SitePage } from './pages.data.ts';

const MOST = 6;
/** How much of the searched words a page must have, from 0 to 1. */
const LEAST = 0.4;
/** Words that nearly every address has, or that name no subject. */
const EMPTY = new Set(['html', 'md', 'index', 'docs', 'api', 'the', 'and', 'of', 'to', 'a']);

/** Splits an address or a title into words: `all-reduce`, `allReduce` and `all_reduce` are two. */
export function wordsOf(text: string): readonly string[] {
  return text
    .replaceAll(/([a-z\d])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== '' && !EMPTY.has(word));
}

/** Returns the pages whose addresses and titles have the most of these words, the best first. None if none has enough. */
export function similarPages(
  words: readonly string[],
  pages: readonly SitePage[],
): readonly SitePage[] {
  if (words.length === 0) return [];
  // The last word of an address says what is looked for, and those before it where.
  const weights = words.map((_, index) => (index === words.length - 1 ? 2 : 1));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return pages
    .map((page) => {
      const own = [...new Set([...wordsOf(page.url), ...wordsOf(page.title)])];
      const found = words.map(
        (word, index) =>
          Math.max(0, ...own.map((each) => likeness(word, each))) * (weights[index] ?? 1),
      );
      const score = found.reduce((sum, each) => sum + each, 0) / total;
      // Of pages that have the same words, the one with the fewest others is meant.
      return { page, score: score - own.length / 1000 };
    })
    .filter(({ score }) => score >= LEAST)
    .toSorted((a, b) => b.score - a.score)
    .slice(0, MOST)
    .map(({ page }) => page);
}

/** How alike two words are, from 0 to 1. */
function likeness(a: string, b: string): number {
  if (a === b) return 1;
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  if (short.length > 2 && long.startsWith(short)) return 0.8;
  if (short.length < 4) return 0;
  const most = short.length < 7 ? 1 : 2;
  return editsBetween(short, long) <= most ? 0.6 : 0;
}

/** The number of letters that are inserted, removed or changed between two words. */
function editsBetween(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
