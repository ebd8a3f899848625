import { transform } from 'sucrase';

/** A program without its types, whose imports are calls of `require`. Throws SyntaxError, which says where. */
export function translate(source: string): string {
  try {
    return transform(source, {
      transforms: ['typescript', 'imports'],
      preserveDynamicImport: true,
      disableESTransforms: true,
    }).code;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const [, what = message, line, column] = /^(.*) \((\d+):(\d+)\)$/.exec(message) ?? [];
    const place = line === undefined ? '' : ` in line ${line}, column ${column}`;
    const said = `The program was not run: ${what}${place}. Correct it there, and run it again`;
    throw new SyntaxError(said, { cause: error });
  }
}

/** What a program imports, types aside. */
export function importsOf(translated: string): readonly string[] {
  return [
    ...new Set([...translated.matchAll(/\brequire\('([^']+)'\)/g)].map(([, name = '']) => name)),
  ];
}
