import type { Pattern, Rule } from './pattern.ts';

/** What is wrong with rules that contain themselves. */
export type RuleFault = 'begins with itself' | 'never ends';

/**
 * A rule that no text can follow, or null: one that begins with itself, possibly behind texts that may be empty, or one
 * whose texts never end.
 */
export function faultyRule(
  root: Pattern,
): { readonly rule: Rule; readonly fault: RuleFault } | null {
  const rules = rulesIn(root);
  const empty = rulesThat(rules, (pattern, known) => holds(pattern, known, false));
  const ending = rulesThat(rules, (pattern, known) => holds(pattern, known, true));
  for (const rule of rules) {
    if (!ending.has(rule)) return { rule, fault: 'never ends' };
    const begun = new Set<Rule>(firstRules(rule.pattern, empty));
    for (const each of begun) for (const next of firstRules(each.pattern, empty)) begun.add(next);
    if (begun.has(rule)) return { rule, fault: 'begins with itself' };
  }
  return null;
}

function rulesIn(root: Pattern): ReadonlySet<Rule> {
  const rules = new Set<Rule>();
  const visit = (pattern: Pattern): void => {
    if (pattern.kind === 'rule') rules.add(pattern.rule);
    else for (const part of partsOf(pattern)) visit(part);
  };
  visit(root);
  for (const { pattern } of rules) visit(pattern);
  return rules;
}

/** The rules of which something holds, if it follows for each from those that are known already. */
function rulesThat(
  rules: ReadonlySet<Rule>,
  isTrue: (pattern: Pattern, known: ReadonlySet<Rule>) => boolean,
): ReadonlySet<Rule> {
  const known = new Set<Rule>();
  for (let before = -1; before !== known.size;) {
    before = known.size;
    for (const rule of rules) if (isTrue(rule.pattern, known)) known.add(rule);
  }
  return known;
}

/** Whether a pattern has a text of such characters and of known rules, `ofCharacters`, or else of no characters. */
function holds(pattern: Pattern, known: ReadonlySet<Rule>, ofCharacters: boolean): boolean {
  const deeper = (part: Pattern): boolean => holds(part, known, ofCharacters);
  switch (pattern.kind) {
    case 'character':
      return ofCharacters && pattern.ranges.length > 0;
    case 'sequence':
      return pattern.parts.every(deeper);
    case 'choice':
      return pattern.options.some(deeper);
    case 'repeat':
      return pattern.least === 0 || deeper(pattern.part);
    case 'rule':
      return known.has(pattern.rule);
    default:
      return pattern satisfies never;
  }
}

/** The rules that a text may begin with. `empty` are those with an empty text. */
function firstRules(pattern: Pattern, empty: ReadonlySet<Rule>): readonly Rule[] {
  if (pattern.kind === 'rule') return [pattern.rule];
  if (pattern.kind !== 'sequence') {
    return partsOf(pattern).flatMap((part) => firstRules(part, empty));
  }
  const last = pattern.parts.findIndex((part) => !holds(part, empty, false));
  const first = last === -1 ? pattern.parts : pattern.parts.slice(0, last + 1);
  return first.flatMap((part) => firstRules(part, empty));
}

function partsOf(pattern: Exclude<Pattern, { kind: 'rule' }>): readonly Pattern[] {
  switch (pattern.kind) {
    case 'character':
      return [];
    case 'sequence':
      return pattern.parts;
    case 'choice':
      return pattern.options;
    case 'repeat':
      return [pattern.part];
    default:
      return pattern satisfies never;
  }
}
