import { transform } from 'sucrase';

/** A program without its types, whose imports are calls of `require`. Throws SyntaxError. */
export function translate(source: string): string {
  return transform(source, {
    transforms: ['typescript', 'imports'],
    preserveDynamicImport: true,
    disableESTransforms: true,
  }).code;
}

/** What a program imports, types aside. */
export function importsOf(translated: string): readonly string[] {
  return [
    ...new Set([...translated.matchAll(/\brequire\('([^']+)'\)/g)].map(([, name = '']) => name)),
  ];
}
