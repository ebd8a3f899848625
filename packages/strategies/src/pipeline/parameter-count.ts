/**
 * How many parameters a function has by its source, `String(body)`: those with defaults included, which its `length`
 * leaves out. Infinity for a rest parameter; null where the source does not tell, as that of a bound function.
 */
export function parameterCount(source: string): number | null {
  if (/\{\s*\[native code\]\s*\}$/.test(source)) return null;
  if (/^(?:async\s+)?[\p{ID_Start}$_][\p{ID_Continue}$]*\s*=>/u.test(source)) return 1;
  const list = parameterList(source);
  if (list === null) return null;
  return list.some((text) => text.startsWith('...')) ? Number.POSITIVE_INFINITY : list.length;
}

/** The texts of the parameters, without comments; null where no list ends. */
function parameterList(source: string): readonly string[] | null {
  const found: string[] = [];
  let [depth, text] = [0, ''];
  for (const [token] of source.slice(source.indexOf('(') + 1).matchAll(tokens)) {
    const isEnd = depth === 0 && token === ')';
    if (isEnd || (depth === 0 && token === ',')) {
      if (text.trim() !== '') found.push(text.trim());
      text = '';
      if (isEnd) return found;
      continue;
    }
    if ('([{'.includes(token)) depth += 1;
    else if (')]}'.includes(token)) depth -= 1;
    if (!token.startsWith('//') && !token.startsWith('/*')) text += token;
  }
  return null;
}

/** Comments and texts as one each, as brackets and commas in them do not count. */
const tokens =
  /\/\/[^\n]*|\/\*[^]*?\*\/|'(?:\\[^]|[^'\\])*'|"(?:\\[^]|[^"\\])*"|`(?:\\[^]|[^`\\])*`|[^]/g;
