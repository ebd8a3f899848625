import { castFunctions } from './casts.ts';
import { integerFunctions } from './integers.ts';
import { mathFunctions } from './math.ts';

/** Functions in WGSL, by name. A function may call functions that come before it. */
const functions: Readonly<Record<string, string>> = {
  ...integerFunctions,
  ...mathFunctions,
  ...castFunctions,
};
const names = Object.keys(functions);

/** The text of the functions that the code calls, and of the functions that these call in turn. */
export function functionsOf(code: string): string {
  const needed = new Set<string>();
  const visit = (text: string): void => {
    for (const [, name = ''] of text.matchAll(/\b([a-z]\w*)\(/g)) {
      const definition = functions[name];
      if (definition === undefined || needed.has(name)) continue;
      needed.add(name);
      visit(definition);
    }
  };
  visit(code);
  return names
    .filter((name) => needed.has(name))
    .map((name) => functions[name])
    .join('\n');
}
