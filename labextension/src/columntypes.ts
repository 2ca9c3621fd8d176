/** Parses Iceberg types as text: `struct<width: int>` has the field `width`. */

/** A named part of a type: a field of a struct, or the element, key or value of a list or map. */
export interface IPart {
  readonly name: string;
  readonly type: string;
}

/** The parts of a type; empty for a type without any, and for text that is not a type. */
export function partsOf(type: string): IPart[] {
  const inner = /^(struct|list|map)<(.*)>$/s.exec(type);
  if (inner === null) {
    return [];
  }
  const pieces = splitTop(inner[2] ?? '');
  switch (inner[1]) {
    case 'struct':
      return pieces.map(field);
    case 'list':
      return [{ name: 'element', type: pieces.join(', ') }];
    default:
      return pieces.map((piece, index) => ({ name: index === 0 ? 'key' : 'value', type: piece }));
  }
}

/** A type's own word, without its parts. */
export function outerType(type: string): string {
  return partsOf(type).length > 0 ? type.slice(0, type.indexOf('<')) : type;
}

function field(text: string): IPart {
  const colon = text.indexOf(': ');
  return colon < 0 ? { name: text, type: '' } : { name: text.slice(0, colon), type: text.slice(colon + 2) };
}

/** Split at commas outside brackets: those in decimal(9, 2) are inside. */
function splitTop(text: string): string[] {
  const pieces: string[] = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at < text.length; at++) {
    const letter = text.charAt(at);
    if ('<('.includes(letter)) {
      depth++;
    } else if ('>)'.includes(letter)) {
      depth--;
    } else if (letter === ',' && depth === 0) {
      pieces.push(text.slice(start, at).trim());
      start = at + 1;
    }
  }
  pieces.push(text.slice(start).trim());
  return pieces;
}
